// RUN: moe-opt %s --verify-roundtrip | FileCheck %s
// RUN: moe-opt %s --emit-bytecode | moe-opt | FileCheck %s

// Every op and attribute round-trips as text and as bytecode.

// CHECK: moe.weight @blk.0.attn_kv_b.weight : tensor<2x96x32x!moe.q8_0> = #moe.tensor<file = 1, offset = 4096>
moe.weight @blk.0.attn_kv_b.weight : tensor<2x96x32x!moe.q8_0> = #moe.tensor<file = 1, offset = 4096>
// CHECK: moe.weight @blk.0.attn_kv_b.weight.keys : tensor<2x64x32x!moe.q8_0> = #moe.slice<dim = 1, begin = 0> of [@blk.0.attn_kv_b.weight]
moe.weight @blk.0.attn_kv_b.weight.keys : tensor<2x64x32x!moe.q8_0> = #moe.slice<dim = 1, begin = 0> of [@blk.0.attn_kv_b.weight]
// CHECK: moe.weight @blk.0.attn_kv_b.weight.keys.transposed : tensor<2x32x64x!moe.q8_0> = #moe.transpose of [@blk.0.attn_kv_b.weight.keys]
moe.weight @blk.0.attn_kv_b.weight.keys.transposed : tensor<2x32x64x!moe.q8_0> = #moe.transpose of [@blk.0.attn_kv_b.weight.keys]
moe.weight @wq : tensor<48x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @wk : tensor<2x32x16xbf16> = #moe.tensor<file = 0, offset = 0>
// CHECK: moe.weight @wq.folded : tensor<80x64xbf16> = #moe.fold_query<heads = 2, nope = 16, rope = 8, latent = 32, k_transposed = true> of [@wq, @wk]
moe.weight @wq.folded : tensor<80x64xbf16> = #moe.fold_query<heads = 2, nope = 16, rope = 8, latent = 32, k_transposed = true> of [@wq, @wk]
moe.weight @up : tensor<8x4x32xf32> = #moe.tensor<file = 0, offset = 0>
// CHECK: moe.weight @"up.3-5" : tensor<3x4x32xf32> = #moe.slice<dim = 0, begin = 3> of [@up]
moe.weight @"up.3-5" : tensor<3x4x32xf32> = #moe.slice<dim = 0, begin = 3> of [@up]
moe.weight @one : tensor<4x32x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
// CHECK: moe.weight @up.chosen : tensor<4x4x32x!moe.q8_0> = #moe.stack of [@"up.3-5", @one]
moe.weight @up.chosen : tensor<4x4x32x!moe.q8_0> = #moe.stack of [@"up.3-5", @one]
moe.weight @bias : tensor<12xf32> = #moe.tensor<file = 0, offset = 0>
// CHECK: moe.weight @bias.8 : tensor<4xf32> = #moe.slice<dim = 0, begin = 8> of [@bias]
moe.weight @bias.8 : tensor<4xf32> = #moe.slice<dim = 0, begin = 8> of [@bias]

// CHECK-LABEL: func.func @weights
func.func @weights() -> (tensor<2x64x32x!moe.q8_0>, tensor<3x4x32xf32>) {
  // CHECK: moe.weight_ref @blk.0.attn_kv_b.weight.keys {moe.label = #moe.label<"attn_kv_b", layer = 0>} : tensor<2x64x32x!moe.q8_0>
  %k = moe.weight_ref @blk.0.attn_kv_b.weight.keys {moe.label = #moe.label<"attn_kv_b", layer = 0>} : tensor<2x64x32x!moe.q8_0>
  // CHECK: moe.weight_ref @"up.3-5" : tensor<3x4x32xf32>
  %u = moe.weight_ref @"up.3-5" : tensor<3x4x32xf32>
  return %k, %u : tensor<2x64x32x!moe.q8_0>, tensor<3x4x32xf32>
}

// All formats: the names of the types are part of the file format.
// CHECK-LABEL: func.func private @formats
func.func private @formats(
    // CHECK-SAME: tensor<1x32xf32>, tensor<1x32xf16>, tensor<1x32xbf16>
    tensor<1x32xf32>, tensor<1x32xf16>, tensor<1x32xbf16>,
    // CHECK-SAME: !moe.q4_0>, {{.*}}!moe.q4_1>, {{.*}}!moe.q5_0>, {{.*}}!moe.q5_1>, {{.*}}!moe.q8_0>
    tensor<1x32x!moe.q4_0>, tensor<1x32x!moe.q4_1>, tensor<1x32x!moe.q5_0>, tensor<1x32x!moe.q5_1>, tensor<1x32x!moe.q8_0>,
    // CHECK-SAME: !moe.q2_k>, {{.*}}!moe.q3_k>, {{.*}}!moe.q4_k>, {{.*}}!moe.q5_k>, {{.*}}!moe.q6_k>
    tensor<1x256x!moe.q2_k>, tensor<1x256x!moe.q3_k>, tensor<1x256x!moe.q4_k>, tensor<1x256x!moe.q5_k>, tensor<1x256x!moe.q6_k>,
    // CHECK-SAME: !moe.iq4_nl>, {{.*}}!moe.iq4_xs>
    tensor<1x32x!moe.iq4_nl>, tensor<1x256x!moe.iq4_xs>)

// CHECK-LABEL: func.func @rows
// CHECK-SAME: moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 4, context = 4096>
func.func @rows(%ids: tensor<?xi32>, %table: tensor<100x64x!moe.q8_0>, %norm: tensor<64xf32>, %w: tensor<64x64xf16>, %bias: tensor<64xf32>)
    -> tensor<?x100xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 4, context = 4096>} {
  // CHECK: %[[X:.*]] = moe.embedding %{{.*}}, %{{.*}} : (tensor<?xi32>, tensor<100x64x!moe.q8_0>) -> tensor<?x64xf32>
  %x = moe.embedding %ids, %table : (tensor<?xi32>, tensor<100x64x!moe.q8_0>) -> tensor<?x64xf32>
  // CHECK: %[[H:.*]] = moe.rms_norm %[[X]], %{{.*}} {eps = 9.9999999999999995E-7 : f64} : tensor<?x64xf32>, tensor<64xf32>
  %h = moe.rms_norm %x, %norm {eps = 1.0e-6} : tensor<?x64xf32>, tensor<64xf32>
  // CHECK: %[[Y:.*]] = moe.linear %[[H]], %{{.*}} bias %{{.*}} residual %[[X]] :
  %y = moe.linear %h, %w bias %bias residual %x : (tensor<?x64xf32>, tensor<64x64xf16>, tensor<64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  // CHECK: %[[Z:.*]] = moe.linear %[[Y]], %{{[a-z0-9]+}} : (tensor<?x64xf32>, tensor<64x64xf16>) -> tensor<?x64xf32>
  %z = moe.linear %y, %w : (tensor<?x64xf32>, tensor<64x64xf16>) -> tensor<?x64xf32>
  // CHECK: %[[S:.*]] = moe.add %[[Y]], %[[Z]] : tensor<?x64xf32>
  %s = moe.add %y, %z : tensor<?x64xf32>
  // CHECK: %[[G:.*]] = moe.transfer %[[S]] from "cpu0" to "gpu0" : tensor<?x64xf32>
  %g = moe.transfer %s from "cpu0" to "gpu0" : tensor<?x64xf32>
  // CHECK: moe.lm_head %[[G]], %{{.*}} : (tensor<?x64xf32>, tensor<100x64x!moe.q8_0>) -> tensor<?x100xf32>
  %l = moe.lm_head %g, %table : (tensor<?x64xf32>, tensor<100x64x!moe.q8_0>) -> tensor<?x100xf32>
  return %l : tensor<?x100xf32>
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<?x48xf32>, %a: tensor<?x40xf32>, %norm: tensor<32xf32>, %wk: tensor<2x16x32xf32>, %wkt: tensor<2x32x16xf32>, %wv: tensor<2x20x32xf32>)
    -> (tensor<?x40xf32>, tensor<?x40xf32>) {
  // CHECK: moe.rope %{{.*}} {heads = 2 : i64, offset = 16 : i64, rope = #moe.rope<dim = 8, base = 1.000000e+04>} : tensor<?x48xf32>
  %r = moe.rope %q {heads = 2, offset = 16, rope = #moe.rope<dim = 8, base = 1.0e4>} : tensor<?x48xf32>
  // CHECK: %[[KV:.*]] = moe.mla_latent %{{.*}}, %{{.*}} {eps = {{.*}}, layer = 3 : i64, rope = #moe.rope<dim = 8, base = 1.000000e+04, factor = 4.000000e+01, original_context = 4096, beta_fast = 1.600000e+01, neox = true>} : (tensor<?x40xf32>, tensor<32xf32>) -> !moe.kv<40>
  %kv = moe.mla_latent %a, %norm {layer = 3, eps = 1.0e-6, rope = #moe.rope<dim = 8, base = 1.0e4, factor = 40.0, original_context = 4096, beta_fast = 16.0, neox = true>} : (tensor<?x40xf32>, tensor<32xf32>) -> !moe.kv<40>
  // CHECK: moe.mla_attention %{{.*}}, %[[KV]], %{{.*}}, %{{.*}} {heads = 2 : i64, k_transposed, latent = 32 : i64, nope = 16 : i64, rope = 8 : i64, scale = 2.500000e-01 : f64, value = 20 : i64}
  %o = moe.mla_attention %r, %kv, %wkt, %wv {heads = 2, nope = 16, rope = 8, latent = 32, value = 20, scale = 0.25, k_transposed} : (tensor<?x48xf32>, !moe.kv<40>, tensor<2x32x16xf32>, tensor<2x20x32xf32>) -> tensor<?x40xf32>
  // CHECK: %[[QL:.*]] = moe.absorb_query
  %ql = moe.absorb_query %r, %wk {heads = 2, nope = 16, rope = 8, latent = 32} : (tensor<?x48xf32>, tensor<2x16x32xf32>) -> tensor<?x80xf32>
  // CHECK: %[[OL:.*]] = moe.latent_attention %[[QL]], %[[KV]]
  %ol = moe.latent_attention %ql, %kv {heads = 2, latent = 32, rope = 8, scale = 0.25} : (tensor<?x80xf32>, !moe.kv<40>) -> tensor<?x64xf32>
  // CHECK: moe.expand_value %[[OL]]
  %of = moe.expand_value %ol, %wv {heads = 2, latent = 32, value = 20} : (tensor<?x64xf32>, tensor<2x20x32xf32>) -> tensor<?x40xf32>
  return %o, %of : tensor<?x40xf32>, tensor<?x40xf32>
}

// CHECK-LABEL: func.func @grouped_attention
func.func @grouped_attention(%q: tensor<?x96xf32>, %k: tensor<?x32xf32>, %v: tensor<?x24xf32>, %norm: tensor<16xf32>, %sinks: tensor<6xf32>)
    -> (tensor<?x72xf32>, tensor<?x72xf32>) {
  // CHECK: moe.rms_norm %{{.*}}, %{{.*}} {eps = {{.*}}, groups = 6 : i64} : tensor<?x96xf32>, tensor<16xf32>
  %n = moe.rms_norm %q, %norm {eps = 1.0e-6, groups = 6} : tensor<?x96xf32>, tensor<16xf32>
  // CHECK: rope = #moe.rope<dim = 8, base = 1.500000e+05, factor = 3.200000e+01, original_context = 4096, rounded = false, magnitude = 1.3465735902799727, divisors = [1.000000e+00, 1.500000e+00, 8.1234567{{[0-9]*}}, 1.000000e+30], neox = true>
  %r = moe.rope %n {heads = 6, offset = 0, rope = #moe.rope<dim = 8, base = 1.5e5, factor = 32.0, original_context = 4096, rounded = false, magnitude = 1.3465735902799727, divisors = [1.0, 1.5, 8.1234567, 1.0e30], neox = true>} : tensor<?x96xf32>
  // Two heads of 16 and 12 elements, each part in blocks of 64.
  // CHECK: %[[KV:.*]] = moe.kv_store %{{.*}}, %{{.*}} {kv_heads = 2 : i64, layer = 3 : i64} : (tensor<?x32xf32>, tensor<?x24xf32>) -> !moe.kv<256>
  %kv = moe.kv_store %k, %v {layer = 3, kv_heads = 2} : (tensor<?x32xf32>, tensor<?x24xf32>) -> !moe.kv<256>
  // CHECK: moe.gqa_attention %{{.*}}, %[[KV]] {heads = 6 : i64, key = 16 : i64, kv_heads = 2 : i64, scale = 2.500000e-01 : f64, value = 12 : i64} : (tensor<?x96xf32>, !moe.kv<256>) -> tensor<?x72xf32>
  %a = moe.gqa_attention %r, %kv {heads = 6, kv_heads = 2, key = 16, value = 12, scale = 0.25} : (tensor<?x96xf32>, !moe.kv<256>) -> tensor<?x72xf32>
  // CHECK: moe.gqa_attention %{{.*}}, %[[KV]] sinks %{{.*}} {{{.*}}softcap = 5.000000e+01 : f64{{.*}}window = 128 : i64}
  %b = moe.gqa_attention %r, %kv sinks %sinks {heads = 6, kv_heads = 2, key = 16, value = 12, scale = 0.25, softcap = 50.0, window = 128} : (tensor<?x96xf32>, !moe.kv<256>, tensor<6xf32>) -> tensor<?x72xf32>
  return %a, %b : tensor<?x72xf32>, tensor<?x72xf32>
}

// CHECK-LABEL: func.func @gate_mul
func.func @gate_mul(%x: tensor<?x64xf32>, %row: tensor<?x1xf32>, %heads: tensor<?x4xf32>) -> tensor<?x64xf32> {
  // CHECK: %[[Y:.*]] = moe.gate_mul %{{.*}}, %{{.*}} : tensor<?x64xf32>, tensor<?x1xf32>
  %y = moe.gate_mul %x, %row : tensor<?x64xf32>, tensor<?x1xf32>
  // CHECK: moe.gate_mul %[[Y]], %{{.*}} : tensor<?x64xf32>, tensor<?x64xf32>
  %z = moe.gate_mul %y, %x : tensor<?x64xf32>, tensor<?x64xf32>
  // CHECK: moe.gate_mul %{{.*}}, %{{.*}} {function = #moe.gate<softplus>} : tensor<?x64xf32>, tensor<?x4xf32>
  %h = moe.gate_mul %z, %heads {function = #moe.gate<softplus>} : tensor<?x64xf32>, tensor<?x4xf32>
  return %h : tensor<?x64xf32>
}

// CHECK-LABEL: func.func @positions
func.func @positions(%ids: tensor<?xi32>, %table: tensor<16x64xf32>, %norm: tensor<64xf32>) -> tensor<?x64xf32> {
  // CHECK: %[[X:.*]] = moe.embed_positions %{{.*}}, %{{.*}} : (tensor<?xi32>, tensor<16x64xf32>) -> tensor<?x64xf32>
  %x = moe.embed_positions %ids, %table : (tensor<?xi32>, tensor<16x64xf32>) -> tensor<?x64xf32>
  // CHECK: moe.position_scale %[[X]] {length = 8 : i64, offset = 1 : i64, slope = 1.000000e-01 : f64} : tensor<?x64xf32>
  %y = moe.position_scale %x {length = 8, offset = 1, slope = 0.1} : tensor<?x64xf32>
  // CHECK: moe.layer_norm %{{.*}}, %{{[a-z0-9]+}} {eps = {{.*}}} : tensor<?x64xf32>, tensor<64xf32>
  %n = moe.layer_norm %y, %norm {eps = 1.0e-6} : tensor<?x64xf32>, tensor<64xf32>
  // CHECK: moe.scale %{{.*}} {factor = 1.000000e+00 : f64, limit = 8.000000e+00 : f64} : tensor<?x64xf32>
  %c = moe.scale %n {factor = 1.0, limit = 8.0} : tensor<?x64xf32>
  // CHECK: moe.activation_mul %{{[a-z0-9]+}} {activation = #moe.activation<gelu_erf>} : tensor<?x64xf32>
  %a = moe.activation_mul %c {activation = #moe.activation<gelu_erf>} : tensor<?x64xf32>
  return %a : tensor<?x64xf32>
}

// CHECK-LABEL: func.func @scaled
func.func @scaled(%ids: tensor<?xi32>, %table: tensor<100x128x!moe.q8_0>) -> tensor<?x64xf32> {
  // CHECK: moe.embedding %{{.*}}, %{{.*}} {begin = 64 : i64} : (tensor<?xi32>, tensor<100x128x!moe.q8_0>) -> tensor<?x64xf32>
  %x = moe.embedding %ids, %table {begin = 64} : (tensor<?xi32>, tensor<100x128x!moe.q8_0>) -> tensor<?x64xf32>
  // CHECK: moe.rms_norm %{{.*}} {eps = {{.*}}, groups = 4 : i64} : tensor<?x64xf32>
  %n = moe.rms_norm %x {eps = 1.0e-6, groups = 4} : tensor<?x64xf32>
  // CHECK: moe.scale %{{.*}} {factor = 5.000000e-01 : f64, softcap = 3.000000e+01 : f64} : tensor<?x64xf32>
  %s = moe.scale %n {factor = 0.5, softcap = 30.0} : tensor<?x64xf32>
  // CHECK: moe.activation_mul %{{.*}}, %{{.*}} {activation = #moe.activation<gelu>} : tensor<?x64xf32>
  %a = moe.activation_mul %s, %x {activation = #moe.activation<gelu>} : tensor<?x64xf32>
  return %a : tensor<?x64xf32>
}

// CHECK-LABEL: func.func @biased
func.func @biased(%x: tensor<?x64xf32>, %gate: tensor<96x64xf32>, %down: tensor<64x96xf32>, %b: tensor<96xf32>, %bd: tensor<64xf32>,
                  %router: tensor<8x64xf32>, %rb: tensor<8xf32>, %ge: tensor<8x32x64xf32>, %de: tensor<8x64x32xf32>, %be: tensor<8x32xf32>, %bde: tensor<8x64xf32>)
    -> tensor<?x64xf32> {
  // CHECK: moe.ffn %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} up_bias %{{.*}} residual %{{.*}} {activation = #moe.activation<gelu>}
  %f = moe.ffn %x, %gate, %gate, %down up_bias %b residual %x {activation = #moe.activation<gelu>} : (tensor<?x64xf32>, tensor<96x64xf32>, tensor<96x64xf32>, tensor<64x96xf32>, tensor<96xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  // CHECK: moe.ffn %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} gate_bias %{{.*}} up_bias %{{.*}} down_bias %{{.*}} : (
  %g = moe.ffn %f, %gate, %gate, %down gate_bias %b up_bias %b down_bias %bd : (tensor<?x64xf32>, tensor<96x64xf32>, tensor<96x64xf32>, tensor<64x96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  // CHECK: moe.router %{{.*}}, %{{.*}} logit_bias %{{.*}} {scoring = #moe.scoring<softmax_topk>, top_k = 3 : i64}
  %ids, %w = moe.router %g, %router logit_bias %rb {top_k = 3, scoring = #moe.scoring<softmax_topk>} : (tensor<?x64xf32>, tensor<8x64xf32>, tensor<8xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  // CHECK: moe.experts %{{.*}} gate_bias %{{.*}} up_bias %{{.*}} down_bias %{{.*}} {activation = #moe.activation<clamped_swiglu>}
  %y = moe.experts %g, %ids, %w, %ge, %ge, %de gate_bias %be up_bias %be down_bias %bde {activation = #moe.activation<clamped_swiglu>} : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x64xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// The default element type of a cache is bf16.
// CHECK: func.func private @caches(!moe.kv<40>, !moe.kv<40, f32>, !moe.kv<40, q8_0>)
func.func private @caches(!moe.kv<40, bf16>, !moe.kv<40, f32>, !moe.kv<40, q8_0>)

// CHECK-LABEL: func.func @ffn
func.func @ffn(%x: tensor<?x64xf32>, %gate: tensor<96x64xf32>, %down: tensor<64x96x!moe.q4_0>) -> tensor<?x64xf32> {
  // CHECK: moe.ffn %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} residual %{{.*}} {fused}
  %y = moe.ffn %x, %gate, %gate, %down residual %x {fused} : (tensor<?x64xf32>, tensor<96x64xf32>, tensor<96x64xf32>, tensor<64x96x!moe.q4_0>, tensor<?x64xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// CHECK-LABEL: func.func @experts
func.func @experts(%x: tensor<?x64xf32>, %router: tensor<8x64xf32>, %bias: tensor<8xf32>, %gate: tensor<8x32x64xf32>, %down: tensor<8x64x32xf32>) -> tensor<?x64xf32> {
  // CHECK: %[[IDS:.*]], %[[W:.*]] = moe.router %{{.*}}, %{{.*}} bias %{{.*}} {group_best = 2 : i64, groups = 4 : i64, groups_used = 2 : i64, normalize, scale = 2.500000e+00 : f64, scoring = #moe.scoring<sigmoid>, top_k = 3 : i64}
  %ids, %w = moe.router %x, %router bias %bias {top_k = 3, scoring = #moe.scoring<sigmoid>, groups = 4, groups_used = 2, group_best = 2, normalize, scale = 2.5} : (tensor<?x64xf32>, tensor<8x64xf32>, tensor<8xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  // CHECK: moe.experts %{{.*}}, %[[IDS]], %[[W]], %{{.*}}, %{{.*}}, %{{.*}} :
  %y = moe.experts %x, %ids, %w, %gate, %gate, %down : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
