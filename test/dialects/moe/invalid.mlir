// RUN: moe-opt %s -verify-diagnostics -split-input-file

// Every relation that a verifier checks is violated once. Messages state what
// was expected, why, and what was found.

//===--- attributes -------------------------------------------------------===//

func.func @rope_odd(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected an even number of dimensions above zero, got 7}}
  %y = moe.rope %x {heads = 2, offset = 0, rope = #moe.rope<dim = 7, base = 1.0e4>} : tensor<?x64xf32>
  return
}

// -----

func.func @rope_base(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected base above 1, got 0.000000}}
  %y = moe.rope %x {heads = 2, offset = 0, rope = #moe.rope<dim = 8, base = 0.0>} : tensor<?x64xf32>
  return
}

// -----

func.func @rope_factor(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected factor above 0, got -1.000000}}
  %y = moe.rope %x {heads = 2, offset = 0, rope = #moe.rope<dim = 8, base = 1.0e4, factor = -1.0>} : tensor<?x64xf32>
  return
}

// -----

func.func @rope_infinite(%x: tensor<?x64xf32>) {
  // expected-error @+2 {{expected a finite number}}
  // expected-error @+1 {{failed to parse}}
  %y = moe.rope %x {heads = 2, offset = 0, rope = #moe.rope<dim = 8, base = 1.0e999>} : tensor<?x64xf32>
  return
}

// -----

// expected-error @below {{expected 1 <= min_tokens <= max_tokens <= context, got 4, 1, 16}}
func.func private @phase() attributes {moe.phase = #moe.phase<"decode", min_tokens = 4, max_tokens = 1, context = 16>}

// -----

// expected-error @below {{expected the name of a phase, got "encode"}}
func.func private @phase() attributes {moe.phase = #moe.phase<"encode", min_tokens = 1, max_tokens = 1, context = 16>}

// -----

// expected-error @below {{expected at least 1 sequence, got 0}}
func.func private @phase() attributes {moe.phase = #moe.phase<"batch", min_tokens = 1, max_tokens = 1, context = 16, sequences = 0>}

// -----

// Each sequence is limited to the context.
// expected-error @below {{expected 1 <= min_tokens <= max_tokens <= context, got 1, 33, 16 for each of 2 sequences}}
func.func private @phase() attributes {moe.phase = #moe.phase<"batch", min_tokens = 1, max_tokens = 33, context = 16, sequences = 2>}

// -----

// expected-error @below {{expected width above zero, got 0}}
func.func private @kv(!moe.kv<0>)

// -----

// expected-error @below {{'q3_0' is not a type of a KV cache}}
func.func private @kv_element(!moe.kv<4, q3_0>)

// -----

//===--- whole-row ops ----------------------------------------------------===//

func.func @embedding_columns(%ids: tensor<?xi32>, %t: tensor<100x32xf32>) {
  // expected-error @below {{expected result columns from 1 to 32, got 64}}
  %x = moe.embedding %ids, %t : (tensor<?xi32>, tensor<100x32xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @embedding_begin(%ids: tensor<?xi32>, %t: tensor<100x96xf32>) {
  // expected-error @below {{expected begin from 0 to 32, got 33}}
  %x = moe.embedding %ids, %t {begin = 33} : (tensor<?xi32>, tensor<100x96xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @embedding_blocks(%ids: tensor<?xi32>, %t: tensor<100x96x!moe.q8_0>) {
  // expected-error @below {{expected begin a multiple of 32 (the table's blocks), got 16}}
  %x = moe.embedding %ids, %t {begin = 16} : (tensor<?xi32>, tensor<100x96x!moe.q8_0>) -> tensor<?x64xf32>
  return
}

// -----

func.func @embedding_part(%ids: tensor<?xi32>, %t: tensor<100x96x!moe.q8_0>) {
  // expected-error @below {{expected result columns a multiple of 32 (the table's blocks), got 48}}
  %x = moe.embedding %ids, %t {begin = 32} : (tensor<?xi32>, tensor<100x96x!moe.q8_0>) -> tensor<?x48xf32>
  return
}

// -----

func.func @scale_factor(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected a finite factor}}
  %y = moe.scale %x {factor = 0x7FF0000000000000 : f64} : tensor<?x64xf32>
  return
}

// -----

func.func @scale_softcap(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected softcap}}
  %y = moe.scale %x {factor = 1.0, softcap = -1.0} : tensor<?x64xf32>
  return
}

// -----

func.func @embedding_rank(%ids: tensor<?x2xi32>, %t: tensor<100x64xf32>) {
  // expected-error @below {{expected tokens rank 1 (one id per token), got 2}}
  %x = moe.embedding %ids, %t : (tensor<?x2xi32>, tensor<100x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @embedding_tokens(%ids: tensor<?xi32>, %t: tensor<100x64xf32>) {
  // expected-error @below {{expected the same number of tokens everywhere, got [?] and [4, 64]}}
  %x = moe.embedding %ids, %t : (tensor<?xi32>, tensor<100x64xf32>) -> tensor<4x64xf32>
  return
}

// -----

func.func @embedding_table(%ids: tensor<?xi32>, %t: tensor<f32>) {
  // expected-error @below {{expected table of rank 2, got []}}
  %x = moe.embedding %ids, %t : (tensor<?xi32>, tensor<f32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @norm_length(%x: tensor<?x64xf32>, %w: tensor<32xf32>) {
  // expected-error @below {{expected weight length 64 to match x columns, got 32}}
  %y = moe.rms_norm %x, %w {eps = 1.0e-6} : tensor<?x64xf32>, tensor<32xf32>
  return
}

// -----

func.func @norm_format(%x: tensor<?x64xf32>, %w: tensor<64xf16>) {
  // expected-error @below {{operand #1 must be 1D tensor of 32-bit float values}}
  %y = moe.rms_norm %x, %w {eps = 1.0e-6} : tensor<?x64xf32>, tensor<64xf16>
  return
}

// -----

func.func @norm_eps(%x: tensor<?x64xf32>, %w: tensor<64xf32>) {
  // expected-error @below {{expected eps finite and not negative, got -1.000000}}
  %y = moe.rms_norm %x, %w {eps = -1.0} : tensor<?x64xf32>, tensor<64xf32>
  return
}

// -----

func.func @linear_columns(%x: tensor<?x2048xf32>, %w: tensor<64x1024xf32>) {
  // expected-error @below {{'moe.linear' op expected weight columns 2048 to match x columns, got 1024}}
  %y = moe.linear %x, %w : (tensor<?x2048xf32>, tensor<64x1024xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @linear_rows(%x: tensor<?x64xf32>, %w: tensor<32x64xf32>) {
  // expected-error @below {{expected weight rows 64 to match result columns, got 32}}
  %y = moe.linear %x, %w : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @linear_rank(%x: tensor<?x64xf32>, %w: tensor<2x32x64xf32>) {
  // expected-error @below {{expected weight of rank 2, got [2, 32, 64]}}
  %y = moe.linear %x, %w : (tensor<?x64xf32>, tensor<2x32x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @linear_bias(%x: tensor<?x64xf32>, %w: tensor<32x64xf32>, %b: tensor<64xf32>) {
  // expected-error @below {{expected bias length 32 to match result columns, got 64}}
  %y = moe.linear %x, %w bias %b : (tensor<?x64xf32>, tensor<32x64xf32>, tensor<64xf32>) -> tensor<?x32xf32>
  return
}

// -----

func.func @linear_residual(%x: tensor<?x64xf32>, %w: tensor<32x64xf32>) {
  // expected-error @below {{expected residual columns 32 to match result columns, got 64}}
  %y = moe.linear %x, %w residual %x : (tensor<?x64xf32>, tensor<32x64xf32>, tensor<?x64xf32>) -> tensor<?x32xf32>
  return
}

// -----

func.func @unknown_columns(%x: tensor<?x?xf32>, %w: tensor<32x64xf32>) {
  // expected-error @below {{expected columns known and above zero, got [?, ?]}}
  %y = moe.linear %x, %w : (tensor<?x?xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  return
}

// -----

func.func @ffn_gate(%x: tensor<?x64xf32>, %g: tensor<96x32xf32>, %u: tensor<96x64xf32>, %d: tensor<64x96xf32>) {
  // expected-error @below {{expected gate columns 64 to match x columns, got 32}}
  %y = moe.ffn %x, %g, %u, %d : (tensor<?x64xf32>, tensor<96x32xf32>, tensor<96x64xf32>, tensor<64x96xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @ffn_up(%x: tensor<?x64xf32>, %g: tensor<96x64xf32>, %u: tensor<95x64xf32>, %d: tensor<64x96xf32>) {
  // expected-error @below {{expected up rows 96 to match gate rows, got 95}}
  %y = moe.ffn %x, %g, %u, %d : (tensor<?x64xf32>, tensor<96x64xf32>, tensor<95x64xf32>, tensor<64x96xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @ffn_down(%x: tensor<?x64xf32>, %g: tensor<96x64xf32>, %d: tensor<64x64xf32>) {
  // expected-error @below {{expected down columns 96 to match gate rows, got 64}}
  %y = moe.ffn %x, %g, %g, %d : (tensor<?x64xf32>, tensor<96x64xf32>, tensor<96x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @lm_head(%x: tensor<?x64xf32>, %w: tensor<100x64xf32>) {
  // expected-error @below {{expected weight rows 99 to match result columns, got 100}}
  %y = moe.lm_head %x, %w : (tensor<?x64xf32>, tensor<100x64xf32>) -> tensor<?x99xf32>
  return
}

// -----

func.func @transfer(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected two devices, got 'cpu0' to 'cpu0'}}
  %y = moe.transfer %x from "cpu0" to "cpu0" : tensor<?x64xf32>
  return
}

// -----

//===--- attention --------------------------------------------------------===//

func.func @rope_heads(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected x columns a multiple of 3 heads, got 64}}
  %y = moe.rope %x {heads = 3, offset = 0, rope = #moe.rope<dim = 8, base = 1.0e4>} : tensor<?x64xf32>
  return
}

// -----

func.func @rope_wide(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected rope dimensions from 2 to 32, got 64}}
  %y = moe.rope %x {heads = 2, offset = 0, rope = #moe.rope<dim = 64, base = 1.0e4>} : tensor<?x64xf32>
  return
}

// -----

func.func @rope_offset(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected offset from 0 to 24, got 25}}
  %y = moe.rope %x {heads = 2, offset = 25, rope = #moe.rope<dim = 8, base = 1.0e4>} : tensor<?x64xf32>
  return
}

// -----

func.func @latent_columns(%x: tensor<?x48xf32>, %w: tensor<32xf32>) {
  // expected-error @below {{expected x columns 40 (latent + rope), got 48}}
  %kv = moe.mla_latent %x, %w {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 8, base = 1.0e4>} : (tensor<?x48xf32>, tensor<32xf32>) -> !moe.kv<48>
  return
}

// -----

func.func @latent_width(%x: tensor<?x40xf32>, %w: tensor<32xf32>) {
  // expected-error @below {{expected kv width 40 to match x columns, got 48}}
  %kv = moe.mla_latent %x, %w {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 8, base = 1.0e4>} : (tensor<?x40xf32>, tensor<32xf32>) -> !moe.kv<48>
  return
}

// -----

func.func @latent_layer(%x: tensor<?x40xf32>, %w: tensor<32xf32>) {
  // expected-error @below {{expected layer from 0 to 2147483647, got -1}}
  %kv = moe.mla_latent %x, %w {layer = -1, eps = 1.0e-6, rope = #moe.rope<dim = 8, base = 1.0e4>} : (tensor<?x40xf32>, tensor<32xf32>) -> !moe.kv<40>
  return
}

// -----

func.func @attention_q(%q: tensor<?x64xf32>, %kv: !moe.kv<40>, %wk: tensor<2x16x32xf32>, %wv: tensor<2x20x32xf32>) {
  // expected-error @below {{expected q columns 48 (heads * (nope + rope)), got 64}}
  %o = moe.mla_attention %q, %kv, %wk, %wv {heads = 2, nope = 16, rope = 8, latent = 32, value = 20, scale = 0.25} : (tensor<?x64xf32>, !moe.kv<40>, tensor<2x16x32xf32>, tensor<2x20x32xf32>) -> tensor<?x40xf32>
  return
}

// -----

func.func @attention_kv(%q: tensor<?x48xf32>, %kv: !moe.kv<41>, %wk: tensor<2x16x32xf32>, %wv: tensor<2x20x32xf32>) {
  // expected-error @below {{expected kv width 40 (latent + rope), got 41}}
  %o = moe.mla_attention %q, %kv, %wk, %wv {heads = 2, nope = 16, rope = 8, latent = 32, value = 20, scale = 0.25} : (tensor<?x48xf32>, !moe.kv<41>, tensor<2x16x32xf32>, tensor<2x20x32xf32>) -> tensor<?x40xf32>
  return
}

// -----

func.func @attention_wk(%q: tensor<?x48xf32>, %kv: !moe.kv<40>, %wk: tensor<2x32x16xf32>, %wv: tensor<2x20x32xf32>) {
  // expected-error @below {{expected wk [heads, nope, latent] = [2, 16, 32], got [2, 32, 16]}}
  %o = moe.mla_attention %q, %kv, %wk, %wv {heads = 2, nope = 16, rope = 8, latent = 32, value = 20, scale = 0.25} : (tensor<?x48xf32>, !moe.kv<40>, tensor<2x32x16xf32>, tensor<2x20x32xf32>) -> tensor<?x40xf32>
  return
}

// -----

func.func @attention_wk_transposed(%q: tensor<?x48xf32>, %kv: !moe.kv<40>, %wk: tensor<2x16x32xf32>, %wv: tensor<2x20x32xf32>) {
  // expected-error @below {{expected wk [heads, latent, nope] = [2, 32, 16], got [2, 16, 32]}}
  %o = moe.mla_attention %q, %kv, %wk, %wv {heads = 2, nope = 16, rope = 8, latent = 32, value = 20, scale = 0.25, k_transposed} : (tensor<?x48xf32>, !moe.kv<40>, tensor<2x16x32xf32>, tensor<2x20x32xf32>) -> tensor<?x40xf32>
  return
}

// -----

func.func @attention_wv(%q: tensor<?x48xf32>, %kv: !moe.kv<40>, %wk: tensor<2x16x32xf32>, %wv: tensor<2x16x32xf32>) {
  // expected-error @below {{expected wv [heads, value, latent] = [2, 20, 32], got [2, 16, 32]}}
  %o = moe.mla_attention %q, %kv, %wk, %wv {heads = 2, nope = 16, rope = 8, latent = 32, value = 20, scale = 0.25} : (tensor<?x48xf32>, !moe.kv<40>, tensor<2x16x32xf32>, tensor<2x16x32xf32>) -> tensor<?x40xf32>
  return
}

// -----

func.func @attention_result(%q: tensor<?x48xf32>, %kv: !moe.kv<40>, %wk: tensor<2x16x32xf32>, %wv: tensor<2x20x32xf32>) {
  // expected-error @below {{expected result columns 40 (heads * value), got 48}}
  %o = moe.mla_attention %q, %kv, %wk, %wv {heads = 2, nope = 16, rope = 8, latent = 32, value = 20, scale = 0.25} : (tensor<?x48xf32>, !moe.kv<40>, tensor<2x16x32xf32>, tensor<2x20x32xf32>) -> tensor<?x48xf32>
  return
}

// -----

func.func @attention_scale(%q: tensor<?x48xf32>, %kv: !moe.kv<40>, %wk: tensor<2x16x32xf32>, %wv: tensor<2x20x32xf32>) {
  // expected-error @below {{expected scale finite and above zero, got 0.000000}}
  %o = moe.mla_attention %q, %kv, %wk, %wv {heads = 2, nope = 16, rope = 8, latent = 32, value = 20, scale = 0.0} : (tensor<?x48xf32>, !moe.kv<40>, tensor<2x16x32xf32>, tensor<2x20x32xf32>) -> tensor<?x40xf32>
  return
}

// -----

func.func @absorb_result(%q: tensor<?x48xf32>, %wk: tensor<2x16x32xf32>) {
  // expected-error @below {{expected result columns 80 (heads * (latent + rope)), got 64}}
  %o = moe.absorb_query %q, %wk {heads = 2, nope = 16, rope = 8, latent = 32} : (tensor<?x48xf32>, tensor<2x16x32xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @latent_attention_q(%q: tensor<?x48xf32>, %kv: !moe.kv<40>) {
  // expected-error @below {{expected q columns 80 (heads * (latent + rope)), got 48}}
  %o = moe.latent_attention %q, %kv {heads = 2, latent = 32, rope = 8, scale = 0.25} : (tensor<?x48xf32>, !moe.kv<40>) -> tensor<?x64xf32>
  return
}

// -----

func.func @latent_attention_result(%q: tensor<?x80xf32>, %kv: !moe.kv<40>) {
  // expected-error @below {{expected result columns 64 (heads * latent), got 80}}
  %o = moe.latent_attention %q, %kv {heads = 2, latent = 32, rope = 8, scale = 0.25} : (tensor<?x80xf32>, !moe.kv<40>) -> tensor<?x80xf32>
  return
}

// -----

func.func @expand_x(%x: tensor<?x80xf32>, %wv: tensor<2x20x32xf32>) {
  // expected-error @below {{expected x columns 64 (heads * latent), got 80}}
  %o = moe.expand_value %x, %wv {heads = 2, latent = 32, value = 20} : (tensor<?x80xf32>, tensor<2x20x32xf32>) -> tensor<?x40xf32>
  return
}

// -----

//===--- experts ----------------------------------------------------------===//

func.func @router_columns(%x: tensor<?x64xf32>, %w: tensor<8x32xf32>) {
  // expected-error @below {{expected weight columns 64 to match x columns, got 32}}
  %i, %p = moe.router %x, %w {top_k = 3, scoring = #moe.scoring<softmax>} : (tensor<?x64xf32>, tensor<8x32xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  return
}

// -----

func.func @router_top_k(%x: tensor<?x64xf32>, %w: tensor<8x64xf32>) {
  // expected-error @below {{expected top_k from 1 to 8, got 9}}
  %i, %p = moe.router %x, %w {top_k = 9, scoring = #moe.scoring<softmax>} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x9xi32>, tensor<?x9xf32>)
  return
}

// -----

func.func @router_groups(%x: tensor<?x64xf32>, %w: tensor<8x64xf32>) {
  // expected-error @below {{expected experts a multiple of 3 groups, got 8}}
  %i, %p = moe.router %x, %w {top_k = 2, scoring = #moe.scoring<softmax>, groups = 3} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @router_groups_used(%x: tensor<?x64xf32>, %w: tensor<8x64xf32>) {
  // expected-error @below {{expected groups_used from 1 to 4, got 5}}
  %i, %p = moe.router %x, %w {top_k = 2, scoring = #moe.scoring<softmax>, groups = 4, groups_used = 5} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @router_eligible(%x: tensor<?x64xf32>, %w: tensor<8x64xf32>) {
  // expected-error @below {{expected top_k (of the experts in groups_used groups) from 1 to 2, got 3}}
  %i, %p = moe.router %x, %w {top_k = 3, scoring = #moe.scoring<softmax>, groups = 4, groups_used = 1} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  return
}

// -----

func.func @router_small_groups(%x: tensor<?x64xf32>, %w: tensor<8x64xf32>, %b: tensor<8xf32>) {
  // expected-error @below {{expected group_best from 1 to 1, got 2}}
  %i, %p = moe.router %x, %w bias %b {top_k = 2, scoring = #moe.scoring<softmax>, groups = 8, groups_used = 4, group_best = 2} : (tensor<?x64xf32>, tensor<8x64xf32>, tensor<8xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @router_bias(%x: tensor<?x64xf32>, %w: tensor<8x64xf32>, %b: tensor<7xf32>) {
  // expected-error @below {{expected bias length 8 to match weight rows, got 7}}
  %i, %p = moe.router %x, %w bias %b {top_k = 2, scoring = #moe.scoring<softmax>} : (tensor<?x64xf32>, tensor<8x64xf32>, tensor<7xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @router_ids(%x: tensor<?x64xf32>, %w: tensor<8x64xf32>) {
  // expected-error @below {{expected ids columns 2 to match top_k, got 3}}
  %i, %p = moe.router %x, %w {top_k = 2, scoring = #moe.scoring<softmax>} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x3xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @router_weights(%x: tensor<?x64xf32>, %w: tensor<8x64xf32>) {
  // expected-error @below {{expected weights columns 2 to match top_k, got 3}}
  %i, %p = moe.router %x, %w {top_k = 2, scoring = #moe.scoring<softmax>} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x2xi32>, tensor<?x3xf32>)
  return
}

// -----

func.func @router_scale(%x: tensor<?x64xf32>, %w: tensor<8x64xf32>) {
  // expected-error @below {{expected scale finite and above zero, got -2.000000}}
  %i, %p = moe.router %x, %w {top_k = 2, scoring = #moe.scoring<softmax>, scale = -2.0} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @experts_weights(%x: tensor<?x64xf32>, %i: tensor<?x3xi32>, %p: tensor<?x2xf32>, %g: tensor<8x32x64xf32>, %d: tensor<8x64x32xf32>) {
  // expected-error @below {{expected weights columns 3 to match ids columns, got 2}}
  %y = moe.experts %x, %i, %p, %g, %g, %d : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x2xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts_few(%x: tensor<?x64xf32>, %i: tensor<?x3xi32>, %p: tensor<?x3xf32>, %g: tensor<2x32x64xf32>, %d: tensor<2x64x32xf32>) {
  // expected-error @below {{expected ids columns from 1 to 2, got 3}}
  %y = moe.experts %x, %i, %p, %g, %g, %d : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<2x32x64xf32>, tensor<2x32x64xf32>, tensor<2x64x32xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts_gate(%x: tensor<?x64xf32>, %i: tensor<?x3xi32>, %p: tensor<?x3xf32>, %g: tensor<8x32x32xf32>, %d: tensor<8x64x32xf32>) {
  // expected-error @below {{expected gate columns 64 to match x columns, got 32}}
  %y = moe.experts %x, %i, %p, %g, %g, %d : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x32xf32>, tensor<8x32x32xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts_up(%x: tensor<?x64xf32>, %i: tensor<?x3xi32>, %p: tensor<?x3xf32>, %g: tensor<8x32x64xf32>, %u: tensor<7x32x64xf32>, %d: tensor<8x64x32xf32>) {
  // expected-error @below {{expected up [experts, inner, hidden] = [8, 32, 64], got [7, 32, 64]}}
  %y = moe.experts %x, %i, %p, %g, %u, %d : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x64xf32>, tensor<7x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts_down(%x: tensor<?x64xf32>, %i: tensor<?x3xi32>, %p: tensor<?x3xf32>, %g: tensor<8x32x64xf32>, %d: tensor<8x32x64xf32>) {
  // expected-error @below {{expected down [experts, hidden, inner] = [8, 64, 32], got [8, 32, 64]}}
  %y = moe.experts %x, %i, %p, %g, %g, %d : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>) -> tensor<?x64xf32>
  return
}
