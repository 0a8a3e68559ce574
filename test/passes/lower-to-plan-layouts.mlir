// RUN: moe-opt %s -moe-select-kernels -moe-lower-to-plan | FileCheck %s

// A tied embedding: the lookup reads the file's rows, and the head reads packed
// ones, one entry for all phases. Vectors, and weights that a kernel reads
// itself, stay in the file.

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000000 : i64, reserved_bytes = 1000 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e12 : f64, float_ops = 1.0e12 : f64}]}

// CHECK: %[[ROWS:.*]] = plan.weight "token_embd.weight" in %{{.*}} at 1024 : 1x512x256xQ4_K strides [73728, 144]{{$}}
// CHECK: plan.weight "norm.weight"
// CHECK: %[[PACKED:.*]] = plan.pack "token_embd.weight" of %[[ROWS]] layout rows16
// CHECK-NOT: plan.pack
// CHECK: plan.explain "head" phase "decode" on "cpu0" kernel "gemm_q4_k_rows16_avx512" because "Weights packed as rows16."
// CHECK-LABEL: plan.phase "decode"
// CHECK: plan.inst embed {{.*}} table = %[[ROWS]]
// CHECK: plan.inst linear {{.*}} "gemm_q4_k_rows16_avx512"] (act = %{{.*}}, w = %[[PACKED]], out =
// CHECK-LABEL: plan.phase "logits"
// CHECK: plan.inst linear {{.*}} "gemm_q4_k_rows16_avx512"] (act = %{{.*}}, w = %[[PACKED]], out =
module attributes {
  moe.target = #xeon,
  moe.model = {architecture = "deepseek2", name = "tiny", hash = "abc", hidden = 256 : i64, vocab = 512 : i64, layers = 1 : i64, experts = 4 : i64, experts_used = 2 : i64, parameters = 1000 : i64},
  moe.files = [{path = "m.gguf", bytes = 10000000 : i64, header_bytes = 1024 : i64, header_hash = "0123456789abcdef0123456789abcdef"}]} {
moe.weight @token_embd.weight : tensor<512x256x!moe.q4_k> = #moe.tensor<file = 0, offset = 1024>
moe.weight @norm.weight : tensor<256xf32> = #moe.tensor<file = 0, offset = 80000>
func.func @decode(%tokens: tensor<?xi32>) -> tensor<?x512xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %table = moe.weight_ref @token_embd.weight : tensor<512x256x!moe.q4_k>
  %norm = moe.weight_ref @norm.weight : tensor<256xf32>
  %x = moe.embedding %tokens, %table {moe.label = #moe.label<"token_embd">, moe.device = "cpu0"} : (tensor<?xi32>, tensor<512x256x!moe.q4_k>) -> tensor<?x256xf32>
  %h = moe.rms_norm %x, %norm {eps = 1.0e-6, moe.label = #moe.label<"norm">, moe.device = "cpu0"} : tensor<?x256xf32>, tensor<256xf32>
  %y = moe.lm_head %h, %table {moe.label = #moe.label<"head">, moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<512x256x!moe.q4_k>) -> tensor<?x512xf32>
  return %y : tensor<?x512xf32>
}
func.func @logits(%h: tensor<?x256xf32>) -> tensor<?x512xf32> attributes {moe.phase = #moe.phase<"logits", min_tokens = 1, max_tokens = 8, context = 64>} {
  %table = moe.weight_ref @token_embd.weight : tensor<512x256x!moe.q4_k>
  %y = moe.lm_head %h, %table {moe.label = #moe.label<"head">, moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<512x256x!moe.q4_k>) -> tensor<?x512xf32>
  return %y : tensor<?x512xf32>
}
}
