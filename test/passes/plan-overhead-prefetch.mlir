// RUN: moe-opt %s -plan-launches -plan-overhead | FileCheck %s
// RUN: sed 's/l2_bytes = 1048576 : i64, //' %s | moe-opt -plan-launches -plan-overhead | FileCheck %s --check-prefix=UNKNOWN

// The last block of the first launch works alone, and the GPU then waits for
// the CPU: meanwhile, 262144 bytes of the second launch's weights come into L2.
// From memory they would take a second, from L2 almost nothing. The kernel
// takes two seconds for them, so memory limits it for half of the time.
// CHECK: plan.explain "overhead" phase "decode" on "gpu0"
// CHECK-NEXT: plan.explain "prefetch" phase "decode" on "gpu0" kernel "" because "Weights of later launches come into L2
// CHECK-SAME: seconds -{{0.49999|4.9999}}
// CHECK-NEXT: plan.explain "overhead" phase "decode" on "cpu0"
// The CPU works until 3 + 2 + 10 seconds. Beside its last instruction, the GPU's
// second launch takes 2.5 seconds, of which nothing is on the critical path.
// CHECK-NEXT: plan.explain "overlap" phase "decode" on "all"
// CHECK-SAME: seconds -2.50000
// CHECK-NOT: plan.explain "prefetch"
// CHECK: plan.phase "decode"

// UNKNOWN-NOT: plan.explain "prefetch"
// UNKNOWN: plan.explain "overlap"
// UNKNOWN-SAME: seconds -3.000000e+00
// UNKNOWN-NOT: plan.explain "prefetch"
// UNKNOWN: plan.phase "decode"
module attributes {moe.target = {name = "two", devices = [
    {name = "gpu0", kind = "cuda", isa = "cuda", arch = 89 : i64, cores = 4 : i64, l2_bytes = 1048576 : i64, memory_bytes = 1000000000 : i64,
     read_bps = 262144.0 : f64, kernels_basis = "simulated",
     kernels = [{kernel = "gemm_f32_cuda", at = array<f64: 1.0>, memory = array<f64: 131072.0>}]},
    {name = "cpu0", kind = "cpu", isa = "avx2", memory_bytes = 1000000000 : i64, cores = 1 : i64, read_bps = 1.0e9 : f64}]}} {
plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 256 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %gpu0 = plan.device "gpu0" cuda isa "cuda" memory 1000000 {arch = 89 : i32, multiprocessors = 4 : i32}
  %cpu0 = plan.device "cpu0" cpu isa "ref" memory 1000000
  %gpu0.compute = plan.queue compute of %gpu0
  %cpu0.compute = plan.queue compute of %cpu0
  %gguf = plan.file model "m" bytes 1000000 header 0 hash "0123456789abcdef0123456789abcdef"
  %v = plan.weight "v" in %gguf at 0 : 1x256x256xF32 strides [262144, 1024]
  %w = plan.weight "w" in %gguf at 262144 : 1x256x256xF32 strides [262144, 1024]
  plan.resident %v on %gpu0 resident
  plan.resident %w on %gpu0 resident
  %a = plan.explain "a" phase "decode" on "gpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 3.0
  %b = plan.explain "b" phase "decode" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 2.0
  %c = plan.explain "c" phase "decode" on "gpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 3.0
  %d = plan.explain "d" phase "decode" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 10.0
  plan.phase "decode" tokens 1 to 1 {
    %h = plan.buffer "h" on %cpu0 f32 cols 256 rows [1, 0] at 0
    %g = plan.buffer "g" on %cpu0 f32 cols 256 rows [1, 0] at 1024
    %x = plan.buffer "x" on %gpu0 f32 cols 256 rows [1, 0] at 0
    %y = plan.buffer "y" on %gpu0 f32 cols 256 rows [1, 0] at 1024
    %n = plan.buffer "n" on %gpu0 f32 cols 256 rows [1, 0] at 2048
    plan.inst linear on %gpu0.compute ["linear_cuda", "gemm_f32_cuda"] (act = %x, w = %v, out = %y) {accumulate = 0} for %a
    %0 = plan.inst rms_norm on %gpu0.compute ["rms_norm_cuda"] (x = %y, out = %n) {groups = 1, whole = 0, eps = 1.0e-5} barrier signals for %a
    %1 = plan.inst add on %cpu0.compute ["add_ref"] (x = %h, y = %h, out = %h) after %0 signals for %b
    plan.inst linear on %gpu0.compute ["linear_cuda", "gemm_f32_cuda"] (act = %n, w = %w, out = %y) {accumulate = 0} after %1 for %c
    plan.inst add on %cpu0.compute ["add_ref"] (x = %g, y = %g, out = %g) for %d
    plan.bind input %h output %h
  }
}
}
