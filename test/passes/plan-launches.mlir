// RUN: moe-opt %s -plan-launches | FileCheck %s

// GPU instructions become launches of kernels that are compiled for their
// formats and shapes; grids are for the phase's most tokens. All instructions
// that launch a kernel share its module; a CPU's instructions have no launches.

// CHECK-LABEL: plan.program
plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 4 : i32,
    experts_used = 2 : i32, hidden = 256 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %cpu0 = plan.device "cpu0" cpu isa "ref" memory 1000000
  // Memory for decompressed keys and values: 64 positions and 16 more of 2 heads,
  // 64 + 64 columns of 16 bits each.
  // CHECK: plan.device "gpu0" {{.*}}workspace_bytes = 40960 : i64
  %gpu0 = plan.device "gpu0" cuda isa "cuda" memory 1000000 {arch = 89 : i32, multiprocessors = 4 : i32}
  %cpu0.compute = plan.queue compute of %cpu0
  %gpu0.compute = plan.queue compute of %gpu0
  // CHECK: %[[COPIES:.*]] = plan.queue copy of
  %gpu0.copy = plan.queue copy of %gpu0
  // CHECK-NEXT: %[[GEMV:.*]] = plan.module "gemv_1_q4_k" of "kernels/cuda/Gemv.cu" ["MOE_JOBS=0", "MOE_ROWS=1", {{.*}}"MOE_FORMAT=12", {{.*}}]
  // CHECK-NEXT: %[[FLOATS:.*]] = plan.module "gemm_1_q4_k" of "kernels/cuda/FloatGemm.cu"
  // CHECK-NEXT: %[[KEYS:.*]] = plan.module "decompress_mma_32_kv_f16_f32" of "kernels/cuda/DecompressMma.cu"
  // CHECK-NEXT: %[[ATTENTION:.*]] = plan.module "flash_decode8_1x32_16_kv_f16_contiguous_pairs" of "kernels/cuda/FlashAttention.cu"
  // CHECK-NEXT: %[[COPY:.*]] = plan.module "copy" of "kernels/cuda/Copy.cu" []
  // CHECK-NEXT: %[[ADD:.*]] = plan.module "add" of "kernels/cuda/Pair.cu" []
  // CHECK-NOT: plan.module
  %kv0 = plan.kv on %gpu0 layer 0 f16 rows 64 cols 40 at 0
  %gguf = plan.file model "m" bytes 1000000 header 0 hash "0123456789abcdef0123456789abcdef"
  %packed = plan.weight "w" in %gguf at 0 : 1x512x256xQ4_K strides [73728, 144] layout rows16
  %rows = plan.weight "w" in %gguf at 0 : 1x512x256xQ4_K strides [73728, 144]
  %wk = plan.weight "k" in %gguf at 0 : 2x24x32xF32 strides [3072, 128]
  %wv = plan.weight "v" in %gguf at 0 : 2x16x32xF32 strides [2048, 128]
  %why = plan.explain "op" phase "p" on "gpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0

  // CHECK-LABEL: plan.phase "decode"
  plan.phase "decode" tokens 1 to 1 {
    %h = plan.buffer "h" on %cpu0 f32 cols 256 rows [1, 0] at 0
    %x = plan.buffer "x" on %gpu0 f32 cols 256 rows [1, 0] at 0
    %a = plan.buffer "x.a8" on %gpu0 a8 cols 256 rows [1, 0] at 1024
    %y = plan.buffer "y" on %gpu0 f32 cols 512 rows [1, 0] at 2048
    %q = plan.buffer "q" on %gpu0 f32 cols 64 rows [1, 0] at 4096
    %o = plan.buffer "o" on %gpu0 f32 cols 32 rows [1, 0] at 8192
    // CHECK: plan.inst add {{.*}}["add_ref"] (x = %{{.*}}, y = %{{.*}}, out = %{{.*}}) for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %h, y = %h, out = %h) for %why
    // CHECK: plan.inst copy on %[[COPIES]] {{.*}} launches %[[COPY]] grid [1, 1, 1] threads 256 shared 0 for
    plan.inst copy on %gpu0.copy ["copy_cuda"] (x = %h, out = %x) for %why
    // Packed rows with quantised activations; file rows with floats.
    // CHECK: plan.inst linear {{.*}} launches %[[GEMV]] grid [32, 1, 1] threads 32 shared 0 for
    plan.inst linear on %gpu0.compute ["linear_cuda", "gemm_q4_k_rows16_cuda"] (act = %a, w = %packed, out = %y) {accumulate = 0} for %why
    // CHECK: plan.inst linear {{.*}} launches %[[FLOATS]] grid [64, 1, 1] threads 256 shared 0 for
    plan.inst linear on %gpu0.compute ["linear_cuda", "gemm_q4_k_cuda"] (act = %x, w = %rows, out = %y) {accumulate = 0} for %why
    // CHECK: plan.inst mla_attention {{.*}} launches %[[KEYS]] grid [1, 2, 1] {{.*}}, %[[KEYS]] grid [1, 2, 1] {{.*}}, %[[ATTENTION]] grid [1, 1, 2]
    plan.inst mla_attention on %gpu0.compute ["mla_attention_cuda", "gemm_f32_cuda", "gemm_f32_cuda"] (q = %q, kv = %kv0, wk = %wk, wv = %wv, out = %o)
      {heads = 2, nope = 24, rope = 8, latent = 32, value = 16, scale = 1.0} for %why
    // CHECK: plan.inst add {{.*}} launches %[[ADD]] grid [1, 1, 1] threads 256 shared 0 for
    plan.inst add on %gpu0.compute ["add_cuda"] (x = %x, y = %x, out = %x) for %why
    plan.bind input %h output %h
  }

  // CHECK-LABEL: plan.phase "prefill"
  plan.phase "prefill" tokens 2 to 600 {
    %x = plan.buffer "x" on %gpu0 f32 cols 256 rows [1, 0] at 0
    // CHECK: plan.inst add {{.*}} launches %[[ADD]] grid [600, 1, 1] threads 256 shared 0 for
    plan.inst add on %gpu0.compute ["add_cuda"] (x = %x, y = %x, out = %x) for %why
    plan.bind input %x output %x
  }
}
