// RUN: moe-opt %s -moe-absorb-mla 2>&1 | FileCheck %s
// RUN: moe-opt %s -moe-absorb-mla="mla=none" | FileCheck %s --check-prefix=NONE
// RUN: moe-opt %s -moe-absorb-mla="mla=factored" | FileCheck %s --check-prefix=FACTORED
// RUN: moe-opt %s -moe-absorb-mla="mla=folded" | FileCheck %s --check-prefix=FOLDED
// RUN: moe-opt %s -moe-absorb-mla="weights=reference" 2>&1 | FileCheck %s --check-prefix=REFERENCE
// RUN: moe-opt %s -moe-absorb-mla="decode-form=none prefill-form=factored" | FileCheck %s --check-prefix=EACH

// DeepSeek-V2-Lite's attention (16 heads, nope 128, rope 64, latent 512) with
// W_Q and attn_kv_b in BF16, as one layer.

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", cores = 32 : i64, memory_bytes = 549755813888 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}

module attributes {moe.target = #xeon} {
moe.weight @blk.0.attn_q.weight : tensor<3072x2048xbf16> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_kv_a_norm.weight : tensor<512xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_kv_b.weight : tensor<16x256x512xbf16> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_kv_b.weight.keys : tensor<16x128x512xbf16> = #moe.slice<dim = 1, begin = 0> of [@blk.0.attn_kv_b.weight]
moe.weight @blk.0.attn_kv_b.weight.values : tensor<16x128x512xbf16> = #moe.slice<dim = 1, begin = 128> of [@blk.0.attn_kv_b.weight]

// A decoded token reads 2048 cached positions: the latent form does 70 MFLOPs
// where decompression does 8.6 G. Folding W_UK into W_Q reads 37.7 MB instead
// of 14.7.
// CHECK: remark: blk.0.attn in decode: MLA form factored: {{.*}} us on cpu0 for 1 token after 2048 cached, none {{.*}} ms, folded {{.*}} us. folded rejected: 37.7 MB of query weights per layer instead of 14.7 MB.
// A long step shares the decompression among its tokens.
// CHECK: remark: blk.0.attn in prefill: MLA form none: {{.*}} ms on cpu0 for 512 tokens after 1024 cached, factored {{.*}} ms, folded {{.*}} ms. folded rejected: 37.7 MB
// CHECK-LABEL: func.func @decode
// CHECK-NOT: moe.mla_attention
// CHECK: moe.latent_attention
// CHECK-SAME: moe.reason = "MLA form factored: {{.*}} us on cpu0 for 1 token
// CHECK-LABEL: func.func @prefill
// CHECK: moe.mla_attention
// CHECK-SAME: moe.reason = "MLA form none:
// CHECK-NOT: moe.latent_attention

// REFERENCE: blk.0.attn in decode: MLA form factored
// REFERENCE-SAME: folded not available: weights=reference forbids computed weights.

// NONE-LABEL: func.func @decode
// NONE: moe.mla_attention
// NONE-SAME: moe.reason = "MLA form none as requested."
// NONE-NOT: moe.latent_attention

// The algebra: W_UK goes to the query side, W_UV to the output side.
// FACTORED: moe.weight @blk.0.attn_kv_b.weight.keys.transposed : tensor<16x512x128xbf16> = #moe.transpose of [@blk.0.attn_kv_b.weight.keys]
// FACTORED-LABEL: func.func @decode
// FACTORED: %[[Q:.*]] = moe.rope
// FACTORED: %[[KV:.*]] = moe.mla_latent
// FACTORED: %[[V:.*]] = moe.weight_ref @blk.0.attn_kv_b.weight.values
// FACTORED: %[[KT:.*]] = moe.weight_ref @blk.0.attn_kv_b.weight.keys.transposed
// FACTORED: %[[QL:.*]] = moe.absorb_query %[[Q]], %[[KT]] {heads = 16 : i64, k_transposed, latent = 512 : i64, moe.label = #moe.label<"attn.absorb_query", layer = 0>, moe.reason = "{{.*}}", nope = 128 : i64, rope = 64 : i64} : {{.*}} -> tensor<?x9216xf32>
// FACTORED: %[[O:.*]] = moe.latent_attention %[[QL]], %[[KV]] {heads = 16 : i64, latent = 512 : i64, moe.label = #moe.label<"attn.latent", layer = 0>, moe.reason = "{{.*}}", rope = 64 : i64, scale = 0.072168783648703216 : f64} : {{.*}} -> tensor<?x8192xf32>
// FACTORED: %[[R:.*]] = moe.expand_value %[[O]], %[[V]] {heads = 16 : i64, latent = 512 : i64, moe.label = #moe.label<"attn.expand_value", layer = 0>, moe.reason = "{{.*}}", value = 128 : i64} : {{.*}} -> tensor<?x2048xf32>
// FACTORED: return %[[R]]

// The rope part of a head now starts after the latent, and the old projection
// is gone. The folded weight is in BF16 because W_Q is.
// The forms that were only compared leave no weight behind.
// FOLDED-NOT: #moe.transpose
// FOLDED: moe.weight @blk.0.attn_q.weight.folded : tensor<9216x2048xbf16> = #moe.fold_query<heads = 16, nope = 128, rope = 64, latent = 512> of [@blk.0.attn_q.weight, @blk.0.attn_kv_b.weight.keys]
// FOLDED-LABEL: func.func @decode(
// FOLDED-SAME: %[[X:.*]]: tensor<?x2048xf32>, %
// FOLDED: %[[V:.*]] = moe.weight_ref @blk.0.attn_kv_b.weight.values
// FOLDED: %[[W:.*]] = moe.weight_ref @blk.0.attn_q.weight.folded
// FOLDED-NEXT: %[[Q:.*]] = moe.linear %[[X]], %[[W]] {moe.label = #moe.label<"attn_q", layer = 0>
// FOLDED-NEXT: %[[ROT:.*]] = moe.rope %[[Q]] {heads = 16 : i64, moe.label = #moe.label<"attn_q_rope", layer = 0>, moe.reason = "{{.*}}", offset = 512 : i64,
// FOLDED-NEXT: %[[O:.*]] = moe.latent_attention %[[ROT]],
// FOLDED-NEXT: moe.expand_value %[[O]], %[[V]]
// FOLDED-NOT: moe.absorb_query
// FOLDED-NOT: offset = 128

// EACH-LABEL: func.func @decode
// EACH: moe.mla_attention
// EACH-LABEL: func.func @prefill
// EACH: moe.absorb_query
// EACH-NOT: moe.mla_attention
func.func @decode(%x: tensor<?x2048xf32>, %a: tensor<?x576xf32>) -> tensor<?x2048xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 4096>} {
  %wq = moe.weight_ref @blk.0.attn_q.weight : tensor<3072x2048xbf16>
  %norm = moe.weight_ref @blk.0.attn_kv_a_norm.weight : tensor<512xf32>
  %q = moe.linear %x, %wq {moe.label = #moe.label<"attn_q", layer = 0>} : (tensor<?x2048xf32>, tensor<3072x2048xbf16>) -> tensor<?x3072xf32>
  %qr = moe.rope %q {heads = 16, offset = 128, rope = #moe.rope<dim = 64, base = 1.0e4>, moe.label = #moe.label<"attn_q_rope", layer = 0>} : tensor<?x3072xf32>
  %kv = moe.mla_latent %a, %norm {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 64, base = 1.0e4>, moe.label = #moe.label<"attn_kv", layer = 0>} : (tensor<?x576xf32>, tensor<512xf32>) -> !moe.kv<576>
  %wk = moe.weight_ref @blk.0.attn_kv_b.weight.keys : tensor<16x128x512xbf16>
  %wv = moe.weight_ref @blk.0.attn_kv_b.weight.values : tensor<16x128x512xbf16>
  %o = moe.mla_attention %qr, %kv, %wk, %wv {heads = 16, nope = 128, rope = 64, latent = 512, value = 128, scale = 0.072168783648703216, moe.label = #moe.label<"attn", layer = 0>} : (tensor<?x3072xf32>, !moe.kv<576>, tensor<16x128x512xbf16>, tensor<16x128x512xbf16>) -> tensor<?x2048xf32>
  return %o : tensor<?x2048xf32>
}

func.func @prefill(%x: tensor<?x2048xf32>, %a: tensor<?x576xf32>) -> tensor<?x2048xf32> attributes {moe.phase = #moe.phase<"prefill", min_tokens = 2, max_tokens = 512, context = 4096>} {
  %wq = moe.weight_ref @blk.0.attn_q.weight : tensor<3072x2048xbf16>
  %norm = moe.weight_ref @blk.0.attn_kv_a_norm.weight : tensor<512xf32>
  %q = moe.linear %x, %wq {moe.label = #moe.label<"attn_q", layer = 0>} : (tensor<?x2048xf32>, tensor<3072x2048xbf16>) -> tensor<?x3072xf32>
  %qr = moe.rope %q {heads = 16, offset = 128, rope = #moe.rope<dim = 64, base = 1.0e4>, moe.label = #moe.label<"attn_q_rope", layer = 0>} : tensor<?x3072xf32>
  %kv = moe.mla_latent %a, %norm {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 64, base = 1.0e4>, moe.label = #moe.label<"attn_kv", layer = 0>} : (tensor<?x576xf32>, tensor<512xf32>) -> !moe.kv<576>
  %wk = moe.weight_ref @blk.0.attn_kv_b.weight.keys : tensor<16x128x512xbf16>
  %wv = moe.weight_ref @blk.0.attn_kv_b.weight.values : tensor<16x128x512xbf16>
  %o = moe.mla_attention %qr, %kv, %wk, %wv {heads = 16, nope = 128, rope = 64, latent = 512, value = 128, scale = 0.072168783648703216, moe.label = #moe.label<"attn", layer = 0>} : (tensor<?x3072xf32>, !moe.kv<576>, tensor<16x128x512xbf16>, tensor<16x128x512xbf16>) -> tensor<?x2048xf32>
  return %o : tensor<?x2048xf32>
}
}
