// RUN: moe-opt %s -moe-absorb-mla 2>&1 | FileCheck %s
// RUN: moe-opt %s -moe-absorb-mla="decode-form=none" | FileCheck %s --check-prefix=NONE
// RUN: moe-opt %s -moe-absorb-mla="mla=folded" | FileCheck %s --check-prefix=FOLDED

// A batch consists of decoded tokens. It takes the form of decode, whose
// weights are resident, for any number of sequences.

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", cores = 32 : i64, memory_bytes = 549755813888 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}

module attributes {moe.target = #xeon} {
moe.weight @blk.0.attn_q.weight : tensor<3072x2048xbf16> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_kv_a_norm.weight : tensor<512xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_kv_b.weight : tensor<16x256x512xbf16> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_kv_b.weight.keys : tensor<16x128x512xbf16> = #moe.slice<dim = 1, begin = 0> of [@blk.0.attn_kv_b.weight]
moe.weight @blk.0.attn_kv_b.weight.values : tensor<16x128x512xbf16> = #moe.slice<dim = 1, begin = 128> of [@blk.0.attn_kv_b.weight]

// CHECK: remark: blk.0.attn in decode: MLA form factored: {{.*}} for 1 token after 2048 cached
// CHECK: remark: blk.0.attn in batch: MLA form factored as in decode.
// CHECK-LABEL: func.func @batch
// CHECK-NOT: moe.mla_attention
// CHECK: moe.latent_attention
// CHECK-SAME: moe.reason = "MLA form factored as in decode."

// NONE-LABEL: func.func @batch
// NONE: moe.mla_attention
// NONE-SAME: moe.reason = "MLA form none as requested."

// FOLDED-LABEL: func.func @batch
// FOLDED: moe.weight_ref @blk.0.attn_q.weight.folded
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

func.func @batch(%x: tensor<?x2048xf32>, %a: tensor<?x576xf32>) -> tensor<?x2048xf32> attributes {moe.phase = #moe.phase<"batch", min_tokens = 2, max_tokens = 64, context = 4096, sequences = 64>} {
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
