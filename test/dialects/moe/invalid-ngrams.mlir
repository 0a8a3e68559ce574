// RUN: moe-opt %s --verify-diagnostics --split-input-file

moe.weight @table.weight : tensor<29x12xf32> = #moe.tensor<file = 0, offset = 64>

func.func @multipliers(%ids: tensor<?xi32>) {
  %w = moe.weight_ref @table.weight : tensor<29x12xf32>
  // expected-error @below {{expected number of multipliers from 2 to 8, got 1}}
  %x, %h = moe.ngram_embed %ids, %w {layer = 1, part = 3, pad = 2, multipliers = array<i64: 3>, moduli = array<i64: 11, 13>, offsets = array<i64: 0, 16>} : (tensor<?xi32>, tensor<29x12xf32>) -> (tensor<?x24xf32>, !moe.kv<1, f32>)
  return
}

// -----

moe.weight @table.weight : tensor<29x12xf32> = #moe.tensor<file = 0, offset = 64>

func.func @moduli(%ids: tensor<?xi32>) {
  %w = moe.weight_ref @table.weight : tensor<29x12xf32>
  // expected-error @below {{expected number of moduli}}
  %x, %h = moe.ngram_embed %ids, %w {layer = 1, part = 3, pad = 2, multipliers = array<i64: 3, 5, 7>, moduli = array<i64: 11>, offsets = array<i64: 0>} : (tensor<?xi32>, tensor<29x12xf32>) -> (tensor<?x24xf32>, !moe.kv<1, f32>)
  return
}

// -----

moe.weight @table.weight : tensor<29x12xf32> = #moe.tensor<file = 0, offset = 64>

func.func @offsets(%ids: tensor<?xi32>) {
  %w = moe.weight_ref @table.weight : tensor<29x12xf32>
  // expected-error @below {{expected number of offsets 2 to match moduli, got 1}}
  %x, %h = moe.ngram_embed %ids, %w {layer = 1, part = 3, pad = 2, multipliers = array<i64: 3, 5, 7>, moduli = array<i64: 11, 13>, offsets = array<i64: 0>} : (tensor<?xi32>, tensor<29x12xf32>) -> (tensor<?x24xf32>, !moe.kv<1, f32>)
  return
}

// -----

moe.weight @table.weight : tensor<29x12xf32> = #moe.tensor<file = 0, offset = 64>

func.func @beyond(%ids: tensor<?xi32>) {
  %w = moe.weight_ref @table.weight : tensor<29x12xf32>
  // expected-error @below {{expected offset from 0 to 16, got 17}}
  %x, %h = moe.ngram_embed %ids, %w {layer = 1, part = 3, pad = 2, multipliers = array<i64: 3, 5, 7>, moduli = array<i64: 11, 13>, offsets = array<i64: 0, 17>} : (tensor<?xi32>, tensor<29x12xf32>) -> (tensor<?x24xf32>, !moe.kv<1, f32>)
  return
}

// -----

moe.weight @table.weight : tensor<29x12xf32> = #moe.tensor<file = 0, offset = 64>

func.func @none(%ids: tensor<?xi32>) {
  %w = moe.weight_ref @table.weight : tensor<29x12xf32>
  // expected-error @below {{expected modulus from 1 to 29, got 0}}
  %x, %h = moe.ngram_embed %ids, %w {layer = 1, part = 3, pad = 2, multipliers = array<i64: 3, 5, 7>, moduli = array<i64: 11, 0>, offsets = array<i64: 0, 16>} : (tensor<?xi32>, tensor<29x12xf32>) -> (tensor<?x24xf32>, !moe.kv<1, f32>)
  return
}

// -----

moe.weight @table.weight : tensor<29x12xf32> = #moe.tensor<file = 0, offset = 64>

func.func @negative(%ids: tensor<?xi32>) {
  %w = moe.weight_ref @table.weight : tensor<29x12xf32>
  // expected-error @below {{expected multiplier from 0 to}}
  %x, %h = moe.ngram_embed %ids, %w {layer = 1, part = 3, pad = 2, multipliers = array<i64: 3, -5, 7>, moduli = array<i64: 11, 13>, offsets = array<i64: 0, 16>} : (tensor<?xi32>, tensor<29x12xf32>) -> (tensor<?x24xf32>, !moe.kv<1, f32>)
  return
}

// -----

moe.weight @table.weight : tensor<29x12xf32> = #moe.tensor<file = 0, offset = 64>

func.func @rounded(%ids: tensor<?xi32>) {
  %w = moe.weight_ref @table.weight : tensor<29x12xf32>
  // expected-error @below {{expected a history in f32}}
  %x, %h = moe.ngram_embed %ids, %w {layer = 1, part = 3, pad = 2, multipliers = array<i64: 3, 5, 7>, moduli = array<i64: 11, 13>, offsets = array<i64: 0, 16>} : (tensor<?xi32>, tensor<29x12xf32>) -> (tensor<?x24xf32>, !moe.kv<1, f16>)
  return
}

// -----

func.func @streams(%q: tensor<?x24xf32>, %v: tensor<?x11xf32>) {
  // expected-error @below {{expected q columns 22 (streams * value columns), got 24}}
  %g = moe.gate_streams %q, %q, %v {streams = 2} : tensor<?x24xf32>, tensor<?x11xf32>
  return
}
