// RUN: moe-opt %s -verify-diagnostics -split-input-file

// Verifiers of grouped attention and of biases.

func.func @frequencies_count(%x: tensor<?x64xf32>, %ids: tensor<?x2xi32>, %mix: tensor<?x2xf32>, %up: tensor<8x32x64xf32>, %down: tensor<8x64x32xf32>) {
  // expected-error @below {{expected moe.frequencies of 8 experts, found 2}}
  %y = moe.experts %x, %ids, %mix, %up, %up, %down {moe.frequencies = array<f32: 0.5, 0.25>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @frequencies_none(%x: tensor<?x64xf32>, %ids: tensor<?x2xi32>, %mix: tensor<?x2xf32>, %up: tensor<2x32x64xf32>, %down: tensor<2x64x32xf32>) {
  // expected-error @below {{expected moe.frequencies to be numbers from 0 on, not all 0}}
  %y = moe.experts %x, %ids, %mix, %up, %up, %down {moe.frequencies = array<f32: 0.0, 0.0>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<2x32x64xf32>, tensor<2x32x64xf32>, tensor<2x64x32xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @norm_groups(%x: tensor<?x64xf32>, %w: tensor<16xf32>) {
  // expected-error @below {{expected x columns a multiple of 5 groups, got 64}}
  %r = moe.rms_norm %x, %w {eps = 1.0e-6, groups = 5} : tensor<?x64xf32>, tensor<16xf32>
  return
}

// -----

func.func @norm_of_groups(%x: tensor<?x64xf32>, %w: tensor<24xf32>) {
  // expected-error @below {{expected weight length 16 to match x columns of a group, got 24}}
  %r = moe.rms_norm %x, %w {eps = 1.0e-6, groups = 4} : tensor<?x64xf32>, tensor<24xf32>
  return
}

// -----

func.func @gates(%x: tensor<?x64xf32>, %g: tensor<?x3xf32>) {
  // expected-error @below {{expected x columns a multiple of 3 gates, got 64}}
  %r = moe.gate_mul %x, %g : tensor<?x64xf32>, tensor<?x3xf32>
  return
}

// -----

func.func @position_length(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected length from 1 to}}
  %r = moe.position_scale %x {length = 0, slope = 0.1} : tensor<?x64xf32>
  return
}

// -----

func.func @position_slope(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected slope}}
  %r = moe.position_scale %x {length = 8, slope = -0.1} : tensor<?x64xf32>
  return
}

// -----

func.func @position_table(%ids: tensor<?xi32>, %table: tensor<16x64xf32>) {
  // expected-error @below {{expected table columns 32 to match result columns, got 64}}
  %r = moe.embed_positions %ids, %table : (tensor<?xi32>, tensor<16x64xf32>) -> tensor<?x32xf32>
  return
}

// -----

func.func @scale_limit(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected limit}}
  %r = moe.scale %x {factor = 1.0, limit = -1.0} : tensor<?x64xf32>
  return
}

// -----

func.func @ffn_bias(%x: tensor<?x64xf32>, %g: tensor<96x64xf32>, %d: tensor<64x96xf32>, %b: tensor<64xf32>) {
  // expected-error @below {{expected up_bias columns 96 to match its matrix, got 64}}
  %r = moe.ffn %x, %g, %g, %d up_bias %b : (tensor<?x64xf32>, tensor<96x64xf32>, tensor<96x64xf32>, tensor<64x96xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts_bias(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: tensor<4x32x64xf32>, %d: tensor<4x64x32xf32>, %b: tensor<3x64xf32>) {
  // expected-error @below {{expected down_bias rows 4 to match experts, got 3}}
  %r = moe.experts %x, %i, %w, %g, %g, %d down_bias %b : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<4x32x64xf32>, tensor<4x32x64xf32>, tensor<4x64x32xf32>, tensor<3x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @router_logit_bias(%x: tensor<?x64xf32>, %w: tensor<8x64xf32>, %b: tensor<7xf32>) {
  // expected-error @below {{expected logit_bias length 8 to match weight rows, got 7}}
  %i, %r = moe.router %x, %w logit_bias %b {top_k = 3, scoring = #moe.scoring<softmax>} : (tensor<?x64xf32>, tensor<8x64xf32>, tensor<7xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  return
}

// -----

func.func @kv_heads(%k: tensor<?x32xf32>, %v: tensor<?x24xf32>) {
  // expected-error @below {{expected k columns a multiple of 3 kv_heads, got 32}}
  %r = moe.kv_store %k, %v {layer = 0, kv_heads = 3} : (tensor<?x32xf32>, tensor<?x24xf32>) -> !moe.kv<256>
  return
}

// -----

func.func @kv_width(%k: tensor<?x32xf32>, %v: tensor<?x24xf32>) {
  // expected-error @below {{expected kv width 256 (key and value of each head in whole blocks), got 56}}
  %r = moe.kv_store %k, %v {layer = 0, kv_heads = 2} : (tensor<?x32xf32>, tensor<?x24xf32>) -> !moe.kv<56>
  return
}

// -----

func.func @gqa_heads(%q: tensor<?x80xf32>, %kv: !moe.kv<256>) {
  // expected-error @below {{expected heads a multiple of 2 kv_heads, got 5}}
  %r = moe.gqa_attention %q, %kv {heads = 5, kv_heads = 2, key = 16, value = 12, scale = 0.25} : (tensor<?x80xf32>, !moe.kv<256>) -> tensor<?x60xf32>
  return
}

// -----

func.func @gqa_query(%q: tensor<?x80xf32>, %kv: !moe.kv<256>) {
  // expected-error @below {{expected q columns 96 (heads * key), got 80}}
  %r = moe.gqa_attention %q, %kv {heads = 6, kv_heads = 2, key = 16, value = 12, scale = 0.25} : (tensor<?x80xf32>, !moe.kv<256>) -> tensor<?x72xf32>
  return
}

// -----

func.func @gqa_width(%q: tensor<?x96xf32>, %kv: !moe.kv<128>) {
  // expected-error @below {{expected kv width 256 (key and value of each head in whole blocks), got 128}}
  %r = moe.gqa_attention %q, %kv {heads = 6, kv_heads = 2, key = 16, value = 12, scale = 0.25} : (tensor<?x96xf32>, !moe.kv<128>) -> tensor<?x72xf32>
  return
}

// -----

func.func @gqa_result(%q: tensor<?x96xf32>, %kv: !moe.kv<256>) {
  // expected-error @below {{expected result columns 72 (heads * value), got 96}}
  %r = moe.gqa_attention %q, %kv {heads = 6, kv_heads = 2, key = 16, value = 12, scale = 0.25} : (tensor<?x96xf32>, !moe.kv<256>) -> tensor<?x96xf32>
  return
}

// -----

func.func @gqa_window(%q: tensor<?x96xf32>, %kv: !moe.kv<256>) {
  // expected-error @below {{expected window from 0 to 2147483647, got -1}}
  %r = moe.gqa_attention %q, %kv {heads = 6, kv_heads = 2, key = 16, value = 12, scale = 0.25, window = -1} : (tensor<?x96xf32>, !moe.kv<256>) -> tensor<?x72xf32>
  return
}

// -----

func.func @gqa_softcap(%q: tensor<?x96xf32>, %kv: !moe.kv<256>) {
  // expected-error @below {{expected softcap}}
  %r = moe.gqa_attention %q, %kv {heads = 6, kv_heads = 2, key = 16, value = 12, scale = 0.25, softcap = -1.0} : (tensor<?x96xf32>, !moe.kv<256>) -> tensor<?x72xf32>
  return
}

// -----

func.func @gqa_sinks(%q: tensor<?x96xf32>, %kv: !moe.kv<256>, %s: tensor<2xf32>) {
  // expected-error @below {{expected sinks length 6 to match heads, got 2}}
  %r = moe.gqa_attention %q, %kv sinks %s {heads = 6, kv_heads = 2, key = 16, value = 12, scale = 0.25} : (tensor<?x96xf32>, !moe.kv<256>, tensor<2xf32>) -> tensor<?x72xf32>
  return
}

// -----

func.func @rope_divisors(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected 4 divisors, got 1}}
  %r = moe.rope %x {heads = 4, offset = 0, rope = #moe.rope<dim = 8, base = 1.0e4, divisors = [2.0]>} : tensor<?x64xf32>
  return
}

// -----

func.func @rope_divisor(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected divisors above 0, got 0}}
  %r = moe.rope %x {heads = 4, offset = 0, rope = #moe.rope<dim = 4, base = 1.0e4, divisors = [1.0, 0.0]>} : tensor<?x64xf32>
  return
}

// -----

func.func @rope_magnitude(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected magnitude above 0, got 0}}
  %r = moe.rope %x {heads = 4, offset = 0, rope = #moe.rope<dim = 8, base = 1.0e4, magnitude = 0.0>} : tensor<?x64xf32>
  return
}
