// RUN: moe-opt %s -moe-absorb-mla 2>&1 | FileCheck %s
// RUN: moe-opt %s -moe-absorb-mla="weights=reference" 2>&1 | FileCheck %s --check-prefix=REFERENCE

// A latent smaller than the heads' own keys: W_UK^T W_Q has fewer rows than
// W_Q, so that folding saves bytes as well as work. F32 stays F32.

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", cores = 32 : i64, memory_bytes = 549755813888 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}

// CHECK: remark: blk.0.attn in decode: MLA form folded: {{.*}} folded chosen: 4.2 MB of query weights per layer instead of 10.6 MB.
// CHECK: moe.weight @blk.0.attn_q.weight.folded : tensor<512x2048xf32> = #moe.fold_query<{{.*}}k_transposed = true> of [@blk.0.attn_q.weight, @blk.0.attn_k_b.weight]
// CHECK-LABEL: func.func @decode
// CHECK: moe.weight_ref @blk.0.attn_q.weight.folded
// CHECK: moe.rope {{.*}}offset = 32

// REFERENCE: blk.0.attn in decode: MLA form factored
// REFERENCE-NOT: #moe.fold_query
module attributes {moe.target = #xeon} {
moe.weight @blk.0.attn_q.weight : tensor<1280x2048xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_kv_a_norm.weight : tensor<32xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_k_b.weight : tensor<8x32x128xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_v_b.weight : tensor<8x128x32xf32> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%x: tensor<?x2048xf32>, %a: tensor<?x64xf32>) -> tensor<?x1024xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 4096>} {
  %wq = moe.weight_ref @blk.0.attn_q.weight : tensor<1280x2048xf32>
  %norm = moe.weight_ref @blk.0.attn_kv_a_norm.weight : tensor<32xf32>
  %wk = moe.weight_ref @blk.0.attn_k_b.weight : tensor<8x32x128xf32>
  %wv = moe.weight_ref @blk.0.attn_v_b.weight : tensor<8x128x32xf32>
  %q = moe.linear %x, %wq {moe.label = #moe.label<"attn_q", layer = 0>} : (tensor<?x2048xf32>, tensor<1280x2048xf32>) -> tensor<?x1280xf32>
  %qr = moe.rope %q {heads = 8, offset = 128, rope = #moe.rope<dim = 32, base = 1.0e4>, moe.label = #moe.label<"attn_q_rope", layer = 0>} : tensor<?x1280xf32>
  %kv = moe.mla_latent %a, %norm {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 32, base = 1.0e4>, moe.label = #moe.label<"attn_kv", layer = 0>} : (tensor<?x64xf32>, tensor<32xf32>) -> !moe.kv<64>
  %o = moe.mla_attention %qr, %kv, %wk, %wv {heads = 8, nope = 128, rope = 32, latent = 32, value = 128, scale = 0.1, k_transposed, moe.label = #moe.label<"attn", layer = 0>} : (tensor<?x1280xf32>, !moe.kv<64>, tensor<8x32x128xf32>, tensor<8x128x32xf32>) -> tensor<?x1024xf32>
  return %o : tensor<?x1024xf32>
}
}
