// RUN: moe-opt %s -plan-overhead | FileCheck %s

// Rates of a GPU that were simulated are called so.
// CHECK: plan.explain "overhead" phase "decode" on "gpu0"
// CHECK-SAME: because "Seconds come from simulated rates of kernels on gpu0 (a clock that was calibrated on another GPU); kernels without a rate are estimated from peak rates and an assumed efficiency. In addition, each instruction is launched."
// CHECK-SAME: seconds 1.000000e+00
module attributes {moe.target = {name = "made-up", devices = [{name = "gpu0", kind = "cuda", isa = "cuda",
    memory_bytes = 1000000000 : i64, read_bps = 1.0e9 : f64, instruction_seconds = 1.0 : f64,
    kernels_basis = "simulated",
    kernels = [{kernel = "add_cuda", at = array<f64: 1.0>, memory = array<f64: 1.0e9>}]},
  {name = "cpu0", kind = "cpu", isa = "avx2", memory_bytes = 1000000000 : i64, cores = 1 : i64, read_bps = 1.0e9 : f64}]}} {
plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %gpu0 = plan.device "gpu0" cuda isa "cuda" memory 1000000
  %gpu0.compute = plan.queue compute of %gpu0
  %why = plan.explain "op" phase "decode" on "gpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  plan.phase "decode" tokens 1 to 1 {
    %a = plan.buffer "a" on %gpu0 f32 cols 16 rows [1, 0] at 0
    plan.inst add on %gpu0.compute ["add_cuda"] (x = %a, y = %a, out = %a) for %why
    plan.bind input %a output %a
  }
}
}
