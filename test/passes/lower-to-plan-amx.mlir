// RUN: moe-opt %s -moe-select-kernels -moe-lower-to-plan | FileCheck %s

// A CPU with AMX uses AVX-512 kernels where there are none for AMX. 8-bit
// activations for tiles have one scale per 256 columns. A step of few tokens
// does not fill a tile, so its gemms and activations are those of AVX-512.

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "amx", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e12 : f64, float_ops = 1.0e12 : f64}]}

module attributes {
  moe.target = #xeon,
  moe.model = {architecture = "deepseek2", name = "tiny", hash = "abc", hidden = 256 : i64, vocab = 512 : i64, layers = 1 : i64, experts = 0 : i64, experts_used = 0 : i64, parameters = 1000 : i64},
  moe.files = [{path = "m.gguf", bytes = 10000000 : i64, header_bytes = 1024 : i64, header_hash = "0123456789abcdef0123456789abcdef"}]} {
moe.weight @token_embd.weight : tensor<512x256x!moe.q4_k> = #moe.tensor<file = 0, offset = 1024>
moe.weight @attn_q.weight : tensor<32x256x!moe.q4_k> = #moe.tensor<file = 0, offset = 90000>
moe.weight @attn_output.weight : tensor<256x32x!moe.q8_0> = #moe.tensor<file = 0, offset = 100000>

// CHECK: %[[CPU:.*]] = plan.device "cpu0" cpu isa "amx"
// CHECK-LABEL: plan.phase "decode"
// CHECK: plan.inst embed on %[[CPU]].compute ["embed_avx512"]
// CHECK: %[[A:.*]] = plan.buffer "token_embd.a8" on %[[CPU]] a8 cols 256
// CHECK: plan.inst quantize on %[[CPU]].compute ["quantize_avx512"] (x = %{{.*}}, out = %[[A]])
// CHECK: plan.inst linear on %[[CPU]].compute ["linear_avx512", "gemm_q4_k_{{rows16_avx512|avx512}}"] (act = %[[A]],
func.func @decode(%tokens: tensor<?xi32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %table = moe.weight_ref @token_embd.weight : tensor<512x256x!moe.q4_k>
  %wq = moe.weight_ref @attn_q.weight : tensor<32x256x!moe.q4_k>
  %wo = moe.weight_ref @attn_output.weight : tensor<256x32x!moe.q8_0>
  %x = moe.embedding %tokens, %table {moe.label = #moe.label<"token_embd">, moe.device = "cpu0"} : (tensor<?xi32>, tensor<512x256x!moe.q4_k>) -> tensor<?x256xf32>
  %q = moe.linear %x, %wq {moe.label = #moe.label<"attn_q">, moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<32x256x!moe.q4_k>) -> tensor<?x32xf32>
  %o = moe.linear %q, %wo {moe.label = #moe.label<"attn_output">, moe.device = "cpu0"} : (tensor<?x32xf32>, tensor<256x32x!moe.q8_0>) -> tensor<?x256xf32>
  return %o : tensor<?x256xf32>
}

// CHECK-LABEL: plan.phase "prefill"
// CHECK: %[[P:.*]] = plan.buffer "token_embd.a8" on %[[CPU]] a8k cols 256
// CHECK: plan.inst linear on %[[CPU]].compute ["linear_avx512", "gemm_q4_k_rows16_amx"] (act = %[[P]],
func.func @prefill(%tokens: tensor<?xi32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"prefill", min_tokens = 2, max_tokens = 64, context = 64>} {
  %table = moe.weight_ref @token_embd.weight : tensor<512x256x!moe.q4_k>
  %wq = moe.weight_ref @attn_q.weight : tensor<32x256x!moe.q4_k>
  %wo = moe.weight_ref @attn_output.weight : tensor<256x32x!moe.q8_0>
  %x = moe.embedding %tokens, %table {moe.label = #moe.label<"token_embd">, moe.device = "cpu0"} : (tensor<?xi32>, tensor<512x256x!moe.q4_k>) -> tensor<?x256xf32>
  %q = moe.linear %x, %wq {moe.label = #moe.label<"attn_q">, moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<32x256x!moe.q4_k>) -> tensor<?x32xf32>
  %o = moe.linear %q, %wo {moe.label = #moe.label<"attn_output">, moe.device = "cpu0"} : (tensor<?x32xf32>, tensor<256x32x!moe.q8_0>) -> tensor<?x256xf32>
  return %o : tensor<?x256xf32>
}
}
