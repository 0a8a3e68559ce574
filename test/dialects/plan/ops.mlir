// RUN: moe-opt %s | FileCheck %s
// RUN: moe-opt %s --emit-bytecode | moe-opt | FileCheck %s
// RUN: moe-opt %s --mlir-print-op-generic | moe-opt | FileCheck %s

// CHECK-LABEL: plan.program attributes {architecture = "deepseek2"
plan.program attributes {
    architecture = "deepseek2", compiler = "moec 0.1.0", context = 64 : i32,
    experts = 4 : i32, experts_used = 2 : i32, hidden = 256 : i64,
    layers = 1 : i32, model_hash = "h", model_name = "tiny", options = "",
    parameters = 1000 : i64, target = "xeon", vocab = 512 : i64} {
  // CHECK: %[[CPU:.*]] = plan.device "cpu0" cpu isa "avx512" memory 8589934592
  %cpu0 = plan.device "cpu0" cpu isa "avx512" memory 8589934592
  %cpu0.compute = plan.queue compute of %cpu0
  // CHECK: plan.device "gpu0" cuda isa "cuda" memory 1024 {arch = 89 : i32, arena_bytes = 64 : i64, multiprocessors = 128 : i32, worker_bytes = 128 : i64, workspace_bytes = 256 : i64}
  %gpu0 = plan.device "gpu0" cuda isa "cuda" memory 1024 {arch = 89 : i32, arena_bytes = 64 : i64, multiprocessors = 128 : i32, worker_bytes = 128 : i64, workspace_bytes = 256 : i64}
  // CHECK: %[[COPY:.*]] = plan.queue copy of %gpu0
  %gpu0.copy = plan.queue copy of %gpu0
  // CHECK: %[[MODULE:.*]] = plan.module "add" of "kernels/cuda/Pair.cu" ["MOE_ADD", "MOE_N=1"]
  %module = plan.module "add" of "kernels/cuda/Pair.cu" ["MOE_ADD", "MOE_N=1"]
  // CHECK: plan.image of %[[MODULE]] arch 89 registers 40 spilled 8 stack 16 shared 1024 cubin "\7FELF\00x" ptx ".version 9.0"
  plan.image of %module arch 89 registers 40 spilled 8 stack 16 shared 1024 cubin "\7FELF\00x" ptx ".version 9.0"
  // CHECK: %[[FILE:.*]] = plan.file model "tiny.gguf" bytes 2000000 header 512 hash "0123456789abcdef0123456789abcdef"
  %gguf = plan.file model "tiny.gguf" bytes 2000000 header 512 hash "0123456789abcdef0123456789abcdef"
  // CHECK: plan.file packed "tiny.weights" bytes 64 header 0 hash "0123456789abcdef0123456789abcdef" samples "00112233445566778899aabbccddeeff"
  %packed = plan.file packed "tiny.weights" bytes 64 header 0 hash "0123456789abcdef0123456789abcdef" samples "00112233445566778899aabbccddeeff"
  // CHECK: %[[NORM:.*]] = plan.weight "output_norm.weight" in %[[FILE]] at 512 : 1x1x256xF32 strides [1024, 1024]
  %norm = plan.weight "output_norm.weight" in %gguf at 512 : 1x1x256xF32 strides [1024, 1024]
  // CHECK: %[[OUT:.*]] = plan.weight "output.weight" in %[[FILE]] at 2048 : 1x512x256xQ4_K strides [73728, 144] layout rows16
  %out = plan.weight "output.weight" in %gguf at 2048 : 1x512x256xQ4_K strides [73728, 144] layout rows16
  // The model file's layout is not printed.
  // CHECK: %[[DOWN:.*]] = plan.weight "down.weight" in %[[FILE]] at 2048 : 4x17x32xQ4_0 strides [306, 18]{{$}}
  %down = plan.weight "down.weight" in %gguf at 2048 : 4x17x32xQ4_0 strides [306, 18] layout gguf
  // CHECK: plan.weight "up.weight" in %[[FILE]] at 2048 : 4x17x32xQ4_0 strides [306, 18] checksum "0123456789abcdef"
  %up = plan.weight "up.weight" in %gguf at 2048 : 4x17x32xQ4_0 strides [306, 18] checksum "0123456789abcdef"
  // CHECK: plan.pack "down.weight" of %[[DOWN]] layout rows16
  %packed_down = plan.pack "down.weight" of %down layout rows16
  // CHECK: plan.derived "q.folded" = #moe.fold_query<heads = 2, nope = 8, rope = 4, latent = 32, k_transposed = true> of %{{.*}}, %{{.*}} : 1x72x32xF32
  %wq = plan.weight "q" in %gguf at 4096 : 1x24x32xF32 strides [3072, 128]
  %wk = plan.weight "k" in %gguf at 8192 : 2x32x8xF32 strides [1024, 32]
  %folded = plan.derived "q.folded" = #moe.fold_query<heads = 2, nope = 8, rope = 4, latent = 32, k_transposed = true> of %wq, %wk : 1x72x32xF32
  // CHECK: plan.derived "k.transposed" = #moe.transpose of %{{.*}} : 2x8x32xBF16
  %transposed = plan.derived "k.transposed" = #moe.transpose of %wk : 2x8x32xBF16
  // CHECK: plan.derived "q.stacked" = #moe.stack of %{{.*}}, %{{.*}} : 2x24x32xQ8_0
  %stacked = plan.derived "q.stacked" = #moe.stack of %wq, %wq : 2x24x32xQ8_0
  // CHECK: plan.resident %[[NORM]] on %[[CPU]] resident
  plan.resident %norm on %cpu0 resident
  // CHECK: plan.resident %[[OUT]] on %gpu0 streamed
  plan.resident %out on %gpu0 streamed
  // CHECK: %[[FREQ:.*]] = plan.constant "rope.inv_freq" [1.000000e+00, 0.316227764]
  %freq = plan.constant "rope.inv_freq" [1.0, 0.31622776]
  // CHECK: %[[KV:.*]] = plan.kv on %[[CPU]] layer 0 bf16 rows 64 cols 36 at 0
  %kv = plan.kv on %cpu0 layer 0 bf16 rows 64 cols 36 at 0
  // CHECK: plan.tokenizer "gpt2" pre "deepseek-llm" scores [0.000000e+00, -0.316227764] {add_bos, bos = 0 : i32
  plan.tokenizer "gpt2" pre "deepseek-llm" scores [0.0, -0.31622776] {
    tokens = ["a", "\C4\A0b"], types = array<i32: 1, 3>,
    merges = ["a b"], bos = 0 : i32, add_bos, chat_template = "{{ x }}"}
  // CHECK: plan.note "a remark"
  plan.note "a remark"
  // CHECK: %decode.blk.3.ffn = plan.explain "ffn" layer 3 phase "decode" on "cpu0" kernel "" because "" flops
  %ffn = plan.explain "ffn" layer 3 phase "decode" on "cpu0" kernel "" because "" flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  // CHECK: %[[WHY:.*]] = plan.explain "output_norm" phase "logits" on "cpu0" kernel "rms_norm_avx512" because "Fits." flops 1.024000e+03 weights 1.024000e+03 activations 2.048000e+03 kv 0.000000e+00 intensity 1.000000e+00 seconds 2.500000e-01
  %why = plan.explain "output_norm" phase "logits" on "cpu0" kernel "rms_norm_avx512" because "Fits."
    flops 1024.0 weights 1024.0 activations 2048.0 kv 0.0 intensity 1.0 seconds 0.25
  // CHECK: plan.phase "logits" tokens 1 to 16 {
  plan.phase "logits" tokens 1 to 16 {
    // CHECK: %[[X:.*]] = plan.buffer "x" on %[[CPU]] f32 cols 256 rows [1, 0] at 0
    %x = plan.buffer "x" on %cpu0 f32 cols 256 rows [1, 0] at 0
    // CHECK: %[[Y:.*]] = plan.buffer "y" on %[[CPU]] f32 cols 256 rows [1, 0]{{$}}
    %y = plan.buffer "y" on %cpu0 f32 cols 256 rows [1, 0]
    %a = plan.buffer "y.a8" on %cpu0 a8 cols 256 rows [1, 0] at 32768
    // CHECK: plan.buffer "y.own" on %[[CPU]] f32 cols 256 rows [1, 0] per_worker at 64
    %o = plan.buffer "y.own" on %cpu0 f32 cols 256 rows [1, 0] per_worker at 64
    %l = plan.buffer "logits" on %cpu0 f32 cols 512 rows [1, 0] at 65536
    %t = plan.buffer "table" on %cpu0 f32 cols 4 rows [1, 0] at 131072
    // CHECK: plan.inst rope_table on %[[CPU]].compute ["rope_table_ref"] (inv_freq = %[[FREQ]], out = %{{.*}}) {scale = 1.000000e+00} for %[[WHY]]
    plan.inst rope_table on %cpu0.compute ["rope_table_ref"] (inv_freq = %freq, out = %t) {scale = 1.0} for %why
    // CHECK: plan.inst rms_norm on %[[CPU]].compute ["rms_norm_avx512"] (x = %[[X]], weight = %[[NORM]], out = %[[Y]]) {groups = 1, whole = 0, eps = 9.9999999999999995E-7} for %[[WHY]]
    plan.inst rms_norm on %cpu0.compute ["rms_norm_avx512"] (x = %x, weight = %norm, out = %y) {groups = 1, whole = 0, eps = 1.0e-6} for %why
    plan.inst quantize on %cpu0.compute ["quantize_avx512"] (x = %y, out = %a) barrier for %why
    // The optional bias is absent.
    // CHECK: plan.inst linear on %[[CPU]].compute ["linear_avx512", "gemm_q4_k_avx512"] (act = %{{.*}}, w = %[[OUT]], out = %{{.*}}) {accumulate = 0} barrier for %[[WHY]]
    plan.inst linear on %cpu0.compute ["linear_avx512", "gemm_q4_k_avx512"] (act = %a, w = %out, out = %l) {accumulate = 0} barrier for %why
    // CHECK: (act = %{{.*}}, w = %[[OUT]], bias = %[[NORM]], out = %{{.*}}) {accumulate = 1}
    plan.inst linear on %cpu0.compute ["linear_avx512", "gemm_q4_k_avx512"] (act = %a, w = %out, bias = %norm, out = %l) {accumulate = 1} barrier for %why
    %g = plan.buffer "g" on %gpu0 f32 cols 512 rows [1, 0] at 0
    // Zero terms of work are not printed.
    // CHECK: plan.inst add {{.*}} for %[[WHY]] work {token_ops = 2.000000e+00, again = 5.000000e-01}
    plan.inst add on %cpu0.compute ["add_avx512"] (x = %y, y = %y, out = %y) for %why work {token_ops = 2.0, seen_ops = 0.0, again = 0.5}
    // CHECK: %[[READY:.*]] = plan.inst linear {{.*}} signals for %[[WHY]]
    %ready = plan.inst linear on %cpu0.compute ["linear_avx512", "gemm_q4_k_avx512"] (act = %a, w = %out, out = %l) {accumulate = 1} barrier signals for %why
    // CHECK: %[[DONE:.*]] = plan.inst copy on %[[COPY]] ["copy_cuda"] ({{.*}}) launches %[[MODULE]] grid [4, 2, 1] threads 256 shared 64, %[[MODULE]] grid [1, 1, 1] threads 32 shared 0 after %[[READY]] signals for %[[WHY]]
    %done = plan.inst copy on %gpu0.copy ["copy_cuda"] (x = %l, out = %g) launches %module grid [4, 2, 1] threads 256 shared 64, %module grid [1, 1, 1] threads 32 shared 0 after %ready signals for %why
    // CHECK: plan.inst rms_norm {{.*}} after %[[READY]], %[[DONE]] barrier for
    plan.inst rms_norm on %cpu0.compute ["rms_norm_avx512"] (x = %x, weight = %norm, out = %y) {groups = 1, whole = 0, eps = 1.0e-6} after %ready, %done barrier for %why
    // CHECK: plan.bind input %[[X]] output %{{.*}}
    plan.bind input %x output %l
  }
}

// What packing is to write.
// CHECK: plan.packing bytes 640 {
// CHECK: %[[F:.*]] = plan.file model "tiny.gguf"
// CHECK: %[[W:.*]] = plan.weight "down.weight" in %[[F]]
// CHECK: plan.packed "down.weight" of %[[W]] layout rows16 at 64
plan.packing bytes 640 {
  %f = plan.file model "tiny.gguf" bytes 2000000 header 512 hash "0123456789abcdef0123456789abcdef"
  %w = plan.weight "down.weight" in %f at 2048 : 1x17x32xQ4_0 strides [306, 18]
  plan.packed "down.weight" of %w layout rows16 at 64
}
