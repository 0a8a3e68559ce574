// RUN: moe-opt %s -plan-launches | FileCheck %s

// Neighbours of a queue become one launch, at the last of them. Waits for any
// of them become waits for the last; only the first may wait for others.

// CHECK-LABEL: plan.program
plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 4 : i32,
    experts_used = 2 : i32, hidden = 256 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %cpu0 = plan.device "cpu0" cpu isa "ref" memory 1000000
  %gpu0 = plan.device "gpu0" cuda isa "cuda" memory 1000000 {arch = 89 : i32, multiprocessors = 4 : i32}
  %cpu0.compute = plan.queue compute of %cpu0
  %gpu0.compute = plan.queue compute of %gpu0
  // CHECK: %[[ALL:.*]] = plan.module "fused__gemm_1_f32__gemm_1_f32__all_rms_norm__all_copy" of "kernels/cuda/Fused.cu"
  // CHECK-SAME: ["begins wide kernels/cuda/FloatGemm.cu MOE_JOBS=0 {{.*}}", "begins wide {{.*}}", "all blocks kernels/cuda/RmsNorm.cu", "all warps kernels/cuda/Copy.cu"]
  // CHECK-NEXT: %[[GEMM:.*]] = plan.module "gemm_1_f32" of "kernels/cuda/FloatGemm.cu"
  // CHECK-NEXT: %[[NARROW:.*]] = plan.module "narrow_3_f32" of "kernels/cuda/Narrow.cu"
  // CHECK-NEXT: %[[LONG:.*]] = plan.module "half_gemm_{{.*}}_f32" of "kernels/cuda/HalfGemm.cu"
  // CHECK-NOT: plan.module
  %gguf = plan.file model "m" bytes 1000000 header 0 hash "0123456789abcdef0123456789abcdef"
  %w = plan.weight "w" in %gguf at 0 : 1x256x256xF32 strides [262144, 1024]
  %why = plan.explain "op" phase "p" on "gpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0

  // CHECK-LABEL: plan.phase "decode"
  plan.phase "decode" tokens 1 to 1 {
    %h = plan.buffer "h" on %cpu0 f32 cols 256 rows [1, 0] at 0
    %g = plan.buffer "g" on %cpu0 f32 cols 256 rows [1, 0] at 1024
    %x = plan.buffer "x" on %gpu0 f32 cols 256 rows [1, 0] at 0
    %y = plan.buffer "y" on %gpu0 f32 cols 256 rows [1, 0] at 1024
    %z = plan.buffer "z" on %gpu0 f32 cols 256 rows [1, 0] at 2048
    %n = plan.buffer "n" on %gpu0 f32 cols 256 rows [1, 0] at 3072
    // CHECK: plan.inst linear {{.*}}, out = %y) {accumulate = 0} for
    // CHECK-NEXT: plan.inst linear {{.*}}, out = %z) {accumulate = 0} for
    // CHECK-NEXT: plan.inst rms_norm {{.*}} eps = {{[^}]*}}} barrier for
    // CHECK-NEXT: %[[LAST:.*]] = plan.inst copy {{.*}} launches %[[ALL]] grid [64, 1, 1] threads 256 shared 0 barrier signals for
    // CHECK-NEXT: plan.inst add on %cpu0.compute {{.*}} after %[[LAST]] for
    plan.inst linear on %gpu0.compute ["linear_cuda", "gemm_f32_cuda"] (act = %x, w = %w, out = %y) {accumulate = 0} for %why
    plan.inst linear on %gpu0.compute ["linear_cuda", "gemm_f32_cuda"] (act = %x, w = %w, out = %z) {accumulate = 0} for %why
    %0 = plan.inst rms_norm on %gpu0.compute ["rms_norm_cuda"] (x = %y, out = %n) {groups = 1, whole = 0, eps = 1.0e-5} barrier signals for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %g, y = %g, out = %g) after %0 for %why
    plan.inst copy on %gpu0.compute ["copy_cuda"] (x = %n, out = %h) barrier for %why
    // This one reads the result of the previous launch.
    // CHECK-NEXT: plan.inst linear {{.*}} launches %[[GEMM]] grid [32, 1, 1]
    %1 = plan.inst linear on %gpu0.compute ["linear_cuda", "gemm_f32_cuda"] (act = %n, w = %w, out = %z) {accumulate = 0} barrier signals for %why
    %2 = plan.inst add on %cpu0.compute ["add_ref"] (x = %h, y = %h, out = %h) after %1 signals for %why
    // This one has a wait.
    // CHECK: plan.inst linear {{.*}} launches %[[GEMM]] grid [32, 1, 1] {{.*}} after
    plan.inst linear on %gpu0.compute ["linear_cuda", "gemm_f32_cuda"] (act = %x, w = %w, out = %y) {accumulate = 0} after %2 for %why
    plan.bind input %h output %h
  }

  // CHECK-LABEL: plan.phase "prefill"
  plan.phase "prefill" tokens 2 to 600 {
    %x = plan.buffer "x" on %gpu0 f32 cols 256 rows [1, 0] at 0
    %y = plan.buffer "y" on %gpu0 f32 cols 256 rows [1, 0] at 614400
    // Products this long are not fused.
    // CHECK-COUNT-2: plan.inst linear {{.*}} launches %[[NARROW]] {{.*}}, %[[LONG]]
    plan.inst linear on %gpu0.compute ["linear_cuda", "gemm_f32_cuda"] (act = %x, w = %w, out = %y) {accumulate = 0} for %why
    plan.inst linear on %gpu0.compute ["linear_cuda", "gemm_f32_cuda"] (act = %x, w = %w, out = %y) {accumulate = 0} barrier for %why
    plan.bind input %x output %x
  }
}
