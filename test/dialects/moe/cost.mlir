// RUN: moe-opt %s --moe-print-cost="tokens=4 context=10" -o /dev/null | FileCheck %s
// RUN: moe-opt %s --moe-print-cost="tokens=1 context=0" -o /dev/null | FileCheck %s --check-prefix=ONE
// RUN: not moe-opt %s --moe-print-cost="tokens=0" 2>&1 | FileCheck %s --check-prefix=BAD

// Costs of 4 tokens after 10 cached positions, by hand. A multiply-accumulate
// is 2 FLOPs; activations are F32.

// BAD: error: expected tokens above 0 and context not below 0, got 0 and 0

moe.weight @t : tensor<100x64x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @n : tensor<64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @w : tensor<32x64xf16> = #moe.tensor<file = 0, offset = 0>
moe.weight @b : tensor<32xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @b_1 : tensor<8xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @kv_b : tensor<2x36x32xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @u : tensor<64x32xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @n_1 : tensor<32xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @kv_b.keys : tensor<2x16x32xf32> = #moe.slice<dim = 1, begin = 0> of [@kv_b]
moe.weight @kv_b.values : tensor<2x20x32xf32> = #moe.slice<dim = 1, begin = 16> of [@kv_b]
moe.weight @w_1 : tensor<8x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @g : tensor<8x32x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @d : tensor<8x64x32xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @g_1 : tensor<32x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @d_1 : tensor<64x32xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @n_2 : tensor<16xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @s : tensor<6xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @rb : tensor<8xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @gb : tensor<8x32xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @db : tensor<8x64xf32> = #moe.tensor<file = 0, offset = 0>

// CHECK-LABEL: @rows tokens=4 context=10
func.func @rows(%ids: tensor<?xi32>) -> tensor<?x100xf32> {
  %table = moe.weight_ref @t : tensor<100x64x!moe.q8_0>
  %norm = moe.weight_ref @n : tensor<64xf32>
  %w = moe.weight_ref @w : tensor<32x64xf16>
  %bias = moe.weight_ref @b : tensor<32xf32>
  %up = moe.weight_ref @u : tensor<64x32xf32>

  // Only the rows of the step are read: 4 of 68 bytes. 4 * 64 * 4 written, 4 ids.
  // CHECK-NEXT: emb moe.embedding flops=0 weights=272 activations=1040 kv=0 resident=6800
  %x = moe.embedding %ids, %table {moe.label = #moe.label<"emb">} : (tensor<?xi32>, tensor<100x64x!moe.q8_0>) -> tensor<?x64xf32>
  // 4 per element; 2 * 4 * 64 * 4 bytes.
  // CHECK-NEXT: norm moe.rms_norm flops=1024 weights=256 activations=2048 kv=0 resident=256
  %h = moe.rms_norm %x, %norm {eps = 1.0e-6, moe.label = #moe.label<"norm">} : tensor<?x64xf32>, tensor<64xf32>
  // 4 * 32 * (2 * 64 + 1); 32 * 64 * 2 + 32 * 4; 4 * 4 * (64 + 32).
  // CHECK-NEXT: down moe.linear flops=16512 weights=4224 activations=1536 kv=0 resident=4224
  %y = moe.linear %h, %w bias %bias {moe.label = #moe.label<"down">} : (tensor<?x64xf32>, tensor<32x64xf16>, tensor<32xf32>) -> tensor<?x32xf32>
  // The residual is one add more, and read: 4 * 64 * (2 * 32 + 1); 4 * 4 * (32 + 64 + 64).
  // CHECK-NEXT: up moe.linear flops=16640 weights=8192 activations=2560 kv=0 resident=8192
  %z = moe.linear %y, %up residual %x {moe.label = #moe.label<"up">} : (tensor<?x32xf32>, tensor<64x32xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  // CHECK-NEXT: add moe.add flops=256 weights=0 activations=3072 kv=0 resident=0
  %s = moe.add %x, %z {moe.label = #moe.label<"add">} : tensor<?x64xf32>
  // The bytes that cross the link, counted once.
  // CHECK-NEXT: - moe.transfer flops=0 weights=0 activations=1024 kv=0 resident=0
  %t = moe.transfer %s from "cpu0" to "gpu0" : tensor<?x64xf32>
  // CHECK-NEXT: head moe.lm_head flops=51200 weights=6800 activations=2624 kv=0 resident=6800
  %l = moe.lm_head %t, %table {moe.label = #moe.label<"head">} : (tensor<?x64xf32>, tensor<100x64x!moe.q8_0>) -> tensor<?x100xf32>
  // CHECK-NEXT: total - flops=85632 weights=19744 activations=13904 kv=0 resident=26272
  return %l : tensor<?x100xf32>
}

// CHECK-LABEL: @attention tokens=4 context=10
// ONE-LABEL: @attention tokens=1 context=0
func.func @attention(%q: tensor<?x48xf32>, %a: tensor<?x40xf32>) -> tensor<?x40xf32> {
  %norm = moe.weight_ref @n_1 : tensor<32xf32>
  %wk = moe.weight_ref @kv_b.keys : tensor<2x16x32xf32>
  %wv = moe.weight_ref @kv_b.values : tensor<2x20x32xf32>
  // 3 per rotated element of 4 * 2 * 8.
  // CHECK-NEXT: - moe.rope flops=192 weights=0 activations=512 kv=0 resident=0
  %r = moe.rope %q {heads = 2, offset = 16, rope = #moe.rope<dim = 8, base = 1.0e4>} : tensor<?x48xf32>
  // 4 * (4 * 32 + 3 * 8); 4 rows of 40 elements of 2 bytes go to the cache.
  // CHECK-NEXT: - moe.mla_latent flops=608 weights=128 activations=640 kv=320 resident=128
  %kv = moe.mla_latent %a, %norm {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 8, base = 1.0e4>} : (tensor<?x40xf32>, tensor<32xf32>) -> !moe.kv<40>
  // All 14 rows are decompressed: 2 * 14 * 2 * (16 + 20) * 32. The tokens see
  // 11 + 12 + 13 + 14 = 50 positions: 50 * 2 * (2 * 24 + 2 * 20 + 4).
  // 4 * 4 * (48 + 40) + 2 * 14 * 72 * 4 bytes; 14 * 40 * 2 of the cache.
  // CHECK-NEXT: none moe.mla_attention flops=73712 weights=9216 activations=9472 kv=1120 resident=9216
  // ONE: none moe.mla_attention flops=4792 weights=9216 activations=928 kv=80 resident=9216
  %o = moe.mla_attention %r, %kv, %wk, %wv {heads = 2, nope = 16, rope = 8, latent = 32, value = 20, scale = 0.25, moe.label = #moe.label<"none">} : (tensor<?x48xf32>, !moe.kv<40>, tensor<2x16x32xf32>, tensor<2x20x32xf32>) -> tensor<?x40xf32>
  // 2 * 4 * 2 * 16 * 32: the context does not matter.
  // CHECK-NEXT: - moe.absorb_query flops=8192 weights=4096 activations=2048 kv=0 resident=4096
  %ql = moe.absorb_query %r, %wk {heads = 2, nope = 16, rope = 8, latent = 32} : (tensor<?x48xf32>, tensor<2x16x32xf32>) -> tensor<?x80xf32>
  // 50 * 2 * (2 * 40 + 2 * 32 + 4).
  // CHECK-NEXT: factored moe.latent_attention flops=14800 weights=0 activations=2304 kv=1120 resident=0
  // ONE: factored moe.latent_attention flops=296 weights=0 activations=576 kv=80 resident=0
  %ol = moe.latent_attention %ql, %kv {heads = 2, latent = 32, rope = 8, scale = 0.25, moe.label = #moe.label<"factored">} : (tensor<?x80xf32>, !moe.kv<40>) -> tensor<?x64xf32>
  // CHECK-NEXT: - moe.expand_value flops=10240 weights=5120 activations=1664 kv=0 resident=5120
  %of = moe.expand_value %ol, %wv {heads = 2, latent = 32, value = 20} : (tensor<?x64xf32>, tensor<2x20x32xf32>) -> tensor<?x40xf32>
  %s = moe.add %o, %of : tensor<?x40xf32>
  return %s : tensor<?x40xf32>
}

// CHECK-LABEL: @experts tokens=4 context=10
// ONE-LABEL: @experts tokens=1 context=0
func.func @experts(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %bias = moe.weight_ref @b_1 : tensor<8xf32>
  %w = moe.weight_ref @w_1 : tensor<8x64xf32>
  %gate = moe.weight_ref @g : tensor<8x32x64xf32>
  %down = moe.weight_ref @d : tensor<8x64x32xf32>
  %g = moe.weight_ref @g_1 : tensor<32x64xf32>
  %d = moe.weight_ref @d_1 : tensor<64x32xf32>
  // 4 * 8 * (2 * 64 + 4); 4 * 4 * (64 + 2 + 2).
  // CHECK-NEXT: - moe.router flops=4224 weights=2080 activations=1088 kv=0 resident=2080
  %ids, %p = moe.router %x, %w bias %bias {top_k = 2, scoring = #moe.scoring<sigmoid>} : (tensor<?x64xf32>, tensor<8x64xf32>, tensor<8xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  // 8 slots: 8 * 32 * (6 * 64 + 4) + 2 * 8 * 64. Of the 196608 bytes of weights
  // 1 - (1 - 2/8)^4 = 0.68359375 are touched. Gate and up written and read,
  // their product too: 6 * 8 * 32 * 4; slots' rows 2 * 8 * 64 * 4; and
  // 4 * 4 * (64 + 2 + 2 + 64).
  // CHECK-NEXT: - moe.experts flops=100352 weights=134400 activations=12352 kv=0 resident=196608
  // One token touches 2 of 8.
  // ONE: - moe.experts flops=25088 weights=49152
  %y = moe.experts %x, %ids, %p, %gate, %gate, %down : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  // Fused, only the product is written and read: 4 * 8 * 32 * 4 bytes less.
  // The residual: 4 * 64 adds, 4 * 64 * 4 bytes.
  // CHECK-NEXT: fused moe.experts flops=100608 weights=134400 activations=9280 kv=0 resident=196608
  %f = moe.experts %x, %ids, %p, %gate, %gate, %down residual %y {fused, moe.label = #moe.label<"fused">} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  // 4 * 32 * (6 * 64 + 4); 6 * 4 * 32 * 4 + 4 * 4 * (64 + 64).
  // CHECK-NEXT: - moe.ffn flops=49664 weights=24576 activations=5120 kv=0 resident=24576
  %s = moe.ffn %f, %g, %g, %d : (tensor<?x64xf32>, tensor<32x64xf32>, tensor<32x64xf32>, tensor<64x32xf32>) -> tensor<?x64xf32>
  // CHECK-NEXT: - moe.ffn flops=49920 weights=24576 activations=4096 kv=0 resident=24576
  %t = moe.ffn %s, %g, %g, %d residual %f {fused} : (tensor<?x64xf32>, tensor<32x64xf32>, tensor<32x64xf32>, tensor<64x32xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  return %t : tensor<?x64xf32>
}

// CHECK-LABEL: @grouped tokens=4 context=10
// ONE-LABEL: @grouped tokens=1 context=0
func.func @grouped(%q: tensor<?x96xf32>, %k: tensor<?x32xf32>, %v: tensor<?x24xf32>, %g: tensor<?x1xf32>) -> tensor<?x72xf32> {
  %norm = moe.weight_ref @n_2 : tensor<16xf32>
  %sinks = moe.weight_ref @s : tensor<6xf32>
  // CHECK-NEXT: - moe.rms_norm flops=1536 weights=64 activations=3072 kv=0 resident=64
  %n = moe.rms_norm %q, %norm {eps = 1.0e-6, groups = 6} : tensor<?x96xf32>, tensor<16xf32>
  // 4 rows of 256 elements of 2 bytes; 4 * 4 * (32 + 24).
  // CHECK-NEXT: - moe.kv_store flops=0 weights=0 activations=896 kv=2048 resident=0
  %kv = moe.kv_store %k, %v {layer = 0, kv_heads = 2} : (tensor<?x32xf32>, tensor<?x24xf32>) -> !moe.kv<256>
  // 50 positions: 50 * 6 * (2 * 16 + 2 * 12 + 4); 4 * 4 * (96 + 72); 14 * 256 * 2.
  // CHECK-NEXT: all moe.gqa_attention flops=18000 weights=0 activations=2688 kv=7168 resident=0
  // ONE: all moe.gqa_attention flops=360 weights=0 activations=672 kv=512 resident=0
  %a = moe.gqa_attention %n, %kv {heads = 6, kv_heads = 2, key = 16, value = 12, scale = 0.25, moe.label = #moe.label<"all">} : (tensor<?x96xf32>, !moe.kv<256>) -> tensor<?x72xf32>
  // Each of the four sees 5, of 5 + 3 rows: 20 * 6 * (56 + 4 + 3).
  // CHECK-NEXT: window moe.gqa_attention flops=7560 weights=24 activations=2688 kv=4096 resident=24
  // ONE: window moe.gqa_attention flops=378 weights=24 activations=672 kv=512 resident=24
  %b = moe.gqa_attention %n, %kv sinks %sinks {heads = 6, kv_heads = 2, key = 16, value = 12, scale = 0.25, window = 5, softcap = 30.0, moe.label = #moe.label<"window">} : (tensor<?x96xf32>, !moe.kv<256>, tensor<6xf32>) -> tensor<?x72xf32>
  // The first sees 11, the others 12, of 12 + 3 rows, of which 14 there are.
  // CHECK-NEXT: filling moe.gqa_attention flops=16920 weights=0 activations=2688 kv=7168 resident=0
  %c = moe.gqa_attention %n, %kv {heads = 6, kv_heads = 2, key = 16, value = 12, scale = 0.25, window = 12, moe.label = #moe.label<"filling">} : (tensor<?x96xf32>, !moe.kv<256>) -> tensor<?x72xf32>
  // A product per element, three more per gate.
  // CHECK-NEXT: - moe.gate_mul flops=300 weights=0 activations=2320 kv=0 resident=0
  %m = moe.gate_mul %c, %g : tensor<?x72xf32>, tensor<?x1xf32>
  // Once a softcap, at three more.
  // CHECK-NEXT: - moe.scale flops=288 weights=0 activations=2304 kv=0 resident=0
  %s = moe.scale %m {factor = 2.0} : tensor<?x72xf32>
  // CHECK-NEXT: - moe.scale flops=1152 weights=0 activations=2304 kv=0 resident=0
  %t = moe.scale %s {factor = 2.0, softcap = 30.0} : tensor<?x72xf32>
  // CHECK-NEXT: - moe.activation_mul flops=1152 weights=0 activations=3456 kv=0 resident=0
  %u = moe.activation_mul %t, %m {activation = #moe.activation<gelu>} : tensor<?x72xf32>
  // CHECK-NEXT: - moe.activation_mul flops=1152 weights=0 activations=2304 kv=0 resident=0
  %only = moe.activation_mul %u {activation = #moe.activation<gelu>} : tensor<?x72xf32>
  // CHECK-NEXT: - moe.position_scale flops=288 weights=0 activations=2304 kv=0 resident=0
  %p = moe.position_scale %only {length = 8, slope = 0.1} : tensor<?x72xf32>
  return %p : tensor<?x72xf32>
}

// Biases are read with the experts that are: 6.4... of 8 for 4 tokens, and added
// to 8 rows.
// CHECK-LABEL: @biased tokens=4 context=10
// ONE-LABEL: @biased tokens=1 context=0
func.func @biased(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %w = moe.weight_ref @w_1 : tensor<8x64xf32>
  %rb = moe.weight_ref @rb : tensor<8xf32>
  %g = moe.weight_ref @g : tensor<8x32x64xf32>
  %d = moe.weight_ref @d : tensor<8x64x32xf32>
  %gb = moe.weight_ref @gb : tensor<8x32xf32>
  %db = moe.weight_ref @db : tensor<8x64xf32>
  // 2 * 8 * 64 + 8 * 4 and one addition for each of 8 logits.
  // ONE-NEXT: - moe.router flops=1064 weights=2080 activations=272 kv=0 resident=2080
  %ids, %p = moe.router %x, %w logit_bias %rb {top_k = 2, scoring = #moe.scoring<softmax_topk>} : (tensor<?x64xf32>, tensor<8x64xf32>, tensor<8xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  // Two of 8 experts: 2 * (3 * 2 * 64 * 32 + 4 * 32 + 32 + 32 + 64 + 2 * 64), and
  // 2 * (3 * 64 * 32 + 32 + 32 + 64) * 4 bytes.
  // ONE-NEXT: - moe.experts flops=25344 weights=50176 activations=3088 kv=0 resident=200704
  %y = moe.experts %x, %ids, %p, %g, %g, %d gate_bias %gb up_bias %gb down_bias %db : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x64xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
