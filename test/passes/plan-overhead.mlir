// RUN: moe-opt %s -plan-overhead | FileCheck %s

// A step's start, 3 instructions and 1 barrier: 8 + 3 * 0.5 + 2. The target is
// no longer needed.
// CHECK: module
// CHECK-NOT: moe.target
module attributes {moe.target = {name = "made-up", devices = [{name = "cpu0", kind = "cpu", isa = "avx2",
    memory_bytes = 1000000000 : i64, read_bps = 1.0e9 : f64, step_seconds = 8.0 : f64,
    instruction_seconds = 0.5 : f64, barrier_seconds = 2.0 : f64,
    kernels = [{kernel = "add_avx2", at = array<f64: 1.0>, memory = array<f64: 1.0e9>}]}]}} {
plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %cpu0 = plan.device "cpu0" cpu isa "avx2" memory 1000000
  %cpu0.compute = plan.queue compute of %cpu0
  // CHECK: plan.explain "op" phase "decode"
  %why = plan.explain "op" phase "decode" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  // CHECK-NEXT: plan.explain "overhead" phase "decode" on "cpu0"
  // CHECK-SAME: because "Seconds come from the measured rate of each kernel. In addition, a step wakes the workers, starts 3 instructions and waits at 1 barrier."
  // CHECK-SAME: seconds 1.150000e+01
  // CHECK-NEXT: plan.explain "overhead" phase "logits" on "cpu0"
  // CHECK-SAME: seconds 8.500000e+00
  plan.phase "decode" tokens 1 to 1 {
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0] at 0
    %b = plan.buffer "b" on %cpu0 f32 cols 16 rows [1, 0] at 64
    %c = plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0] at 128
    plan.inst add on %cpu0.compute ["add_avx2"] (x = %a, y = %a, out = %b) for %why
    plan.inst add on %cpu0.compute ["add_avx2"] (x = %a, y = %a, out = %c) for %why
    plan.inst add on %cpu0.compute ["add_avx2"] (x = %b, y = %c, out = %a) barrier for %why
    plan.bind input %a output %a
  }
  plan.phase "logits" tokens 1 to 1 {
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0] at 0
    plan.inst add on %cpu0.compute ["add_avx2"] (x = %a, y = %a, out = %a) for %why
    plan.bind input %a output %a
  }
}
}
