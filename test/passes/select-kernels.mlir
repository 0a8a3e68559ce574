// RUN: moe-opt %s -moe-select-kernels | FileCheck %s

#hybrid = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 1000 : i64, read_bps = 9.3e11 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000 : i64, read_bps = 2.2e11 : f64}]}

module attributes {moe.target = #hybrid} {
moe.weight @token_embd.weight : tensor<100x256x!moe.q4_k> = #moe.tensor<file = 0, offset = 0>
moe.weight @n : tensor<256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @q4 : tensor<256x256x!moe.q4_k> = #moe.tensor<file = 0, offset = 0>
moe.weight @f32 : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @w : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @q6 : tensor<256x256x!moe.q6_k> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_gate_inp.weight : tensor<8x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_gate_exps.weight : tensor<8x32x64x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_down_exps.weight : tensor<8x64x32x!moe.q5_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @n_1 : tensor<32xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @k : tensor<2x16x32xbf16> = #moe.tensor<file = 0, offset = 0>
moe.weight @v : tensor<2x20x32xbf16> = #moe.tensor<file = 0, offset = 0>

// CHECK-LABEL: func.func @rows
func.func @rows(%tokens: tensor<?xi32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %table = moe.weight_ref @token_embd.weight : tensor<100x256x!moe.q4_k>
  %n = moe.weight_ref @n : tensor<256xf32>
  %q4 = moe.weight_ref @q4 : tensor<256x256x!moe.q4_k>
  %f32 = moe.weight_ref @f32 : tensor<256x256xf32>
  // The op's kernel dequantises the table's rows, so there is no gemm.
  // CHECK: moe.embedding {{.*}} moe.kernels = #moe.kernels<embed_avx512>
  %x = moe.embedding %tokens, %table {moe.device = "cpu0"} : (tensor<?xi32>, tensor<100x256x!moe.q4_k>) -> tensor<?x256xf32>
  // CHECK: moe.rms_norm {{.*}} moe.kernels = #moe.kernels<rms_norm_avx512>
  %h = moe.rms_norm %x, %n {eps = 1.0e-6, moe.device = "cpu0"} : tensor<?x256xf32>, tensor<256xf32>
  // A gemm on 8-bit activations needs a Quantize.
  // CHECK: moe.linear {{.*}} moe.kernels = #moe.kernels<quantize_avx512, linear_avx512(gemm_q4_k_rows16_avx512)>
  %a = moe.linear %h, %q4 {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256x!moe.q4_k>) -> tensor<?x256xf32>
  // CHECK: moe.linear {{.*}} moe.kernels = #moe.kernels<linear_avx512(gemm_f32_avx512)>
  %b = moe.linear %a, %f32 {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  // So does a GPU's.
  // CHECK: moe.linear {{.*}} moe.kernels = #moe.kernels<quantize_cuda, linear_cuda(gemm_q4_k_rows16_cuda)>
  %c = moe.linear %b, %q4 {moe.device = "gpu0"} : (tensor<?x256xf32>, tensor<256x256x!moe.q4_k>) -> tensor<?x256xf32>
  // CHECK: moe.transfer {{.*}} moe.kernels = #moe.kernels<copy_cuda>
  %t = moe.transfer %c from "gpu0" to "cpu0" {moe.device = "gpu0"} : tensor<?x256xf32>
  // CHECK: moe.rope {{.*}} moe.kernels = #moe.kernels<rope_table_avx512, rope_avx512>
  %r = moe.rope %t {heads = 2, offset = 64, rope = #moe.rope<dim = 64, base = 1.0e4>, moe.device = "cpu0"} : tensor<?x256xf32>
  return %r : tensor<?x256xf32>
}

// A residual with a later reader must survive, so its sum is separate.
// Otherwise the projection adds to its buffer.
// CHECK-LABEL: func.func @residuals
func.func @residuals(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %w = moe.weight_ref @w : tensor<256x256xf32>
  // An argument belongs to the caller.
  // CHECK: moe.linear {{.*}} moe.kernels = #moe.kernels<linear_avx512({{[a-z0-9_, ]+}}), add_avx512>
  %a = moe.linear %x, %w residual %x {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<?x256xf32>) -> tensor<?x256xf32>
  // CHECK: moe.linear {{.*}} moe.kernels = #moe.kernels<linear_avx512({{[a-z0-9_, ]+}}), add_avx512>
  %b = moe.linear %x, %w residual %a {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<?x256xf32>) -> tensor<?x256xf32>
  // CHECK: moe.linear {{.*}} moe.kernels = #moe.kernels<linear_avx512({{[a-z0-9_, ]+}})>
  %c = moe.linear %b, %w residual %a {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<?x256xf32>) -> tensor<?x256xf32>
  // An input of the projection cannot be its output.
  // CHECK: moe.linear {{.*}} moe.kernels = #moe.kernels<linear_avx512({{[a-z0-9_, ]+}}), add_avx512>
  %d = moe.linear %c, %w residual %c {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<?x256xf32>) -> tensor<?x256xf32>
  return %d : tensor<?x256xf32>
}

// CHECK-LABEL: func.func @ffn
func.func @ffn(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"prefill", min_tokens = 2, max_tokens = 512, context = 1024>} {
  %q4 = moe.weight_ref @q4 : tensor<256x256x!moe.q4_k>
  %q6 = moe.weight_ref @q6 : tensor<256x256x!moe.q6_k>
  %f32 = moe.weight_ref @f32 : tensor<256x256xf32>
  // CHECK: moe.kernels = #moe.kernels<quantize_avx512, gate_up_avx512(gemm_q4_k_rows16_avx512, gemm_q4_k_rows16_avx512), quantize_avx512, linear_avx512(gemm_q6_k_rows16_avx512)>
  %a = moe.ffn %x, %q4, %q4, %q6 {fused, moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256x!moe.q4_k>, tensor<256x256x!moe.q4_k>, tensor<256x256x!moe.q6_k>) -> tensor<?x256xf32>
  // Gate reads F32, up A8: only one of them makes the op quantise its input.
  // CHECK: moe.kernels = #moe.kernels<linear_avx512(gemm_f32_avx512), quantize_avx512, linear_avx512(gemm_q4_k_rows16_avx512), activation_mul_avx512, linear_avx512(gemm_f32_avx512)>
  %b = moe.ffn %a, %f32, %q4, %f32 {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256x!moe.q4_k>, tensor<256x256xf32>) -> tensor<?x256xf32>
  // Two gemms that read A8 share what is quantised once.
  // CHECK: moe.kernels = #moe.kernels<quantize_avx512, linear_avx512({{[a-z0-9_, ]+}}), linear_avx512({{[a-z0-9_, ]+}}), activation_mul_avx512, linear_avx512({{[a-z0-9_, ]+}})>
  %c = moe.ffn %b, %q4, %q6, %f32 {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256x!moe.q4_k>, tensor<256x256x!moe.q6_k>, tensor<256x256xf32>) -> tensor<?x256xf32>
  return %c : tensor<?x256xf32>
}

// CHECK-LABEL: func.func @experts
func.func @experts(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"prefill", min_tokens = 2, max_tokens = 512, context = 1024>} {
  %wr = moe.weight_ref @blk.0.ffn_gate_inp.weight : tensor<8x64xf32>
  %gate = moe.weight_ref @blk.0.ffn_gate_exps.weight : tensor<8x32x64x!moe.q8_0>
  %down = moe.weight_ref @blk.0.ffn_down_exps.weight : tensor<8x64x32x!moe.q5_0>
  // CHECK: moe.router {{.*}} moe.kernels = #moe.kernels<linear_avx512(gemm_f32_avx512), router_avx512, expert_group_avx512>
  %ids, %w = moe.router %x, %wr {top_k = 3, scoring = #moe.scoring<softmax>, moe.device = "cpu0"} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  // CHECK: moe.experts {{.*}} moe.kernels = #moe.kernels<quantize_avx512, experts_gate_up_avx512(gemm_q8_0_rows16_avx512, gemm_q8_0_rows16_avx512), quantize_avx512, experts_linear_avx512(gemm_q5_0_rows16_avx512), experts_combine_avx512>
  %y = moe.experts %x, %ids, %w, %gate, %gate, %down {fused, moe.device = "cpu0"} : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x64x!moe.q8_0>, tensor<8x32x64x!moe.q8_0>, tensor<8x64x32x!moe.q5_0>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<?x48xf32>, %a: tensor<?x40xf32>) -> (tensor<?x40xf32>, tensor<?x40xf32>) attributes {moe.phase = #moe.phase<"prefill", min_tokens = 2, max_tokens = 512, context = 1024>} {
  %norm = moe.weight_ref @n_1 : tensor<32xf32>
  %wk = moe.weight_ref @k : tensor<2x16x32xbf16>
  %wv = moe.weight_ref @v : tensor<2x20x32xbf16>
  // CHECK: moe.mla_latent {{.*}} moe.kernels = #moe.kernels<rope_table_avx512, mla_latent_avx512>
  %kv = moe.mla_latent %a, %norm {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 8, base = 1.0e4>, moe.device = "cpu0"} : (tensor<?x40xf32>, tensor<32xf32>) -> !moe.kv<40>
  // Keys and values come from the cache. The kernel encodes them: no Quantize.
  // CHECK: moe.mla_attention {{.*}} moe.kernels = #moe.kernels<mla_attention_avx512(gemm_bf16{{.*}}_avx512, gemm_bf16{{.*}}_avx512)>
  %o = moe.mla_attention %q, %kv, %wk, %wv {heads = 2, nope = 16, rope = 8, latent = 32, value = 20, scale = 0.25, moe.device = "cpu0"} : (tensor<?x48xf32>, !moe.kv<40>, tensor<2x16x32xbf16>, tensor<2x20x32xbf16>) -> tensor<?x40xf32>
  // CHECK: moe.absorb_query {{.*}} moe.kernels = #moe.kernels<absorb_query_avx512>
  %ql = moe.absorb_query %q, %wk {heads = 2, nope = 16, rope = 8, latent = 32, moe.device = "cpu0"} : (tensor<?x48xf32>, tensor<2x16x32xbf16>) -> tensor<?x80xf32>
  // CHECK: moe.latent_attention {{.*}} moe.kernels = #moe.kernels<latent_attention_avx512, combine_splits_avx512>
  %ol = moe.latent_attention %ql, %kv {heads = 2, latent = 32, rope = 8, scale = 0.25, moe.device = "cpu0"} : (tensor<?x80xf32>, !moe.kv<40>) -> tensor<?x64xf32>
  // CHECK: moe.expand_value {{.*}} moe.kernels = #moe.kernels<head_linear_avx512(gemm_bf16{{.*}}_avx512)>
  %of = moe.expand_value %ol, %wv {heads = 2, latent = 32, value = 20, moe.device = "cpu0"} : (tensor<?x64xf32>, tensor<2x20x32xbf16>) -> tensor<?x40xf32>
  return %o, %of : tensor<?x40xf32>, tensor<?x40xf32>
}
}
