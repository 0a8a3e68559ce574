// RUN: moe-opt %s -split-input-file -verify-diagnostics -moe-absorb-mla="mla=folded"
// RUN: not moe-opt %s -split-input-file -moe-absorb-mla="mla=folded weights=reference" 2>&1 | FileCheck %s

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 549755813888 : i64, read_bps = 2.2e11 : f64}]}

// CHECK: error: blk.0.attn: the folded form of attention needs weights that are not in the model file, and weights=reference forbids writing any
// CHECK: note: use the factored form

// Nothing to fold into: the queries are an argument.
module attributes {moe.target = #xeon} {
moe.weight @blk.0.attn_kv_a_norm.weight : tensor<32xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_k_b.weight : tensor<2x16x32xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_v_b.weight : tensor<2x20x32xf32> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%q: tensor<?x48xf32>, %a: tensor<?x40xf32>) -> tensor<?x40xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %norm = moe.weight_ref @blk.0.attn_kv_a_norm.weight : tensor<32xf32>
  %wk = moe.weight_ref @blk.0.attn_k_b.weight : tensor<2x16x32xf32>
  %wv = moe.weight_ref @blk.0.attn_v_b.weight : tensor<2x20x32xf32>
  %kv = moe.mla_latent %a, %norm {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 8, base = 1.0e4>} : (tensor<?x40xf32>, tensor<32xf32>) -> !moe.kv<40>
  // expected-error @+2 {{blk.0.attn: the folded form of attention needs queries that are rope(linear(x, w)) with no other use of the intermediate results}}
  // expected-note @+1 {{use the factored form}}
  %o = moe.mla_attention %q, %kv, %wk, %wv {heads = 2, nope = 16, rope = 8, latent = 32, value = 20, scale = 0.25, moe.label = #moe.label<"attn", layer = 0>} : (tensor<?x48xf32>, !moe.kv<40>, tensor<2x16x32xf32>, tensor<2x20x32xf32>) -> tensor<?x40xf32>
  return %o : tensor<?x40xf32>
}
}

// -----

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 549755813888 : i64, read_bps = 2.2e11 : f64}]}
module attributes {moe.target = #xeon} {
moe.weight @blk.0.attn_kv_a_norm.weight : tensor<32xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_k_b.weight : tensor<2x16x32xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_v_b.weight : tensor<2x20x32xf32> = #moe.tensor<file = 0, offset = 0>
func.func @forward(%q: tensor<?x48xf32>, %a: tensor<?x40xf32>) -> tensor<?x40xf32> {
  %norm = moe.weight_ref @blk.0.attn_kv_a_norm.weight : tensor<32xf32>
  %wk = moe.weight_ref @blk.0.attn_k_b.weight : tensor<2x16x32xf32>
  %wv = moe.weight_ref @blk.0.attn_v_b.weight : tensor<2x20x32xf32>
  %kv = moe.mla_latent %a, %norm {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 8, base = 1.0e4>} : (tensor<?x40xf32>, tensor<32xf32>) -> !moe.kv<40>
  // expected-error @+1 {{blk.0.attn is in a function without moe.phase; run moe-specialize-phases first}}
  %o = moe.mla_attention %q, %kv, %wk, %wv {heads = 2, nope = 16, rope = 8, latent = 32, value = 20, scale = 0.25, moe.label = #moe.label<"attn", layer = 0>} : (tensor<?x48xf32>, !moe.kv<40>, tensor<2x16x32xf32>, tensor<2x20x32xf32>) -> tensor<?x40xf32>
  return %o : tensor<?x40xf32>
}
}

// -----

// expected-error @+1 {{expected the attribute moe.target}}
module {
}
