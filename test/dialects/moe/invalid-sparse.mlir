// RUN: moe-opt %s --verify-diagnostics --split-input-file

func.func @store(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected kv width 64 to match x columns, got 32}}
  %kv = moe.row_store %x {layer = 0} : (tensor<?x64xf32>) -> !moe.kv<32>
  return
}

// -----

func.func @choice(%q: tensor<?x760xf32>, %w: tensor<?x12xf32>, %kv: !moe.kv<64>) {
  // expected-error @below {{expected q columns 768 (heads * key), got 760}}
  %c = moe.choose_entries %q, %kv weights %w {heads = 12, key = 64, top_k = 16, scale = 0.125} : (tensor<?x760xf32>, tensor<?x12xf32>, !moe.kv<64>) -> tensor<?x16xi32>
  return
}

// -----

func.func @nothing(%q: tensor<?x192xf32>, %kv: !moe.kv<32>) {
  // expected-error @below {{expected a kv, or entries of one position each}}
  %a = moe.sparse_attention %q entries %kv {heads = 6, key = 32, value = 32, scale = 0.125, ratio = 4} : (tensor<?x192xf32>, !moe.kv<32>) -> tensor<?x192xf32>
  return
}

// -----

func.func @window(%q: tensor<?x192xf32>, %kv: !moe.kv<32>) {
  // expected-error @below {{expected window from 1 to 2147483647, got 0}}
  %a = moe.sparse_attention %q kv %kv {heads = 6, key = 32, value = 32, scale = 0.125} : (tensor<?x192xf32>, !moe.kv<32>) -> tensor<?x192xf32>
  return
}

// -----

func.func @chosen(%q: tensor<?x192xf32>, %kv: !moe.kv<32>, %c: tensor<?x14xi32>) {
  // expected-error @below {{expected entries that are chosen}}
  %a = moe.sparse_attention %q kv %kv chosen %c {heads = 6, key = 32, value = 32, scale = 0.125, window = 9} : (tensor<?x192xf32>, !moe.kv<32>, tensor<?x14xi32>) -> tensor<?x192xf32>
  return
}

// -----

func.func @halves(%x: tensor<?x64xf32>, %ape: tensor<4x64xf32>) {
  // expected-error @below {{expected kv columns 32 to match result columns, got 64}}
  %e = moe.compress %x gate %x ape %ape {layer = 2, part = 2, ratio = 4} : (tensor<?x64xf32>, tensor<?x64xf32>, tensor<4x64xf32>) -> tensor<?x32xf32>
  return
}

// -----

func.func @streams(%m: tensor<?x23xf32>, %s: tensor<3xf32>, %b: tensor<23xf32>) {
  // expected-error @below {{expected x columns 24 (streams, or streams * (2 + streams)), got 23}}
  %w = moe.hyper_weights %m, %s, %b {streams = 4, iterations = 20, eps = 1.0e-06} : (tensor<?x23xf32>, tensor<3xf32>, tensor<23xf32>) -> tensor<?x23xf32>
  return
}

// -----

func.func @half(%y: tensor<?x40xf32>, %x: tensor<?x160xf32>) {
  // expected-error @below {{expected streams and weights, or neither}}
  %z = moe.hyper_spread %y into %x {streams = 4} : (tensor<?x40xf32>, tensor<?x160xf32>) -> tensor<?x160xf32>
  return
}

// -----

func.func @table(%x: tensor<?x40xf32>, %t: tensor<?xi32>, %w: tensor<9x40xf32>, %e: tensor<263x3xf32>) {
  // expected-error @below {{expected a table of i32}}
  %i, %r = moe.hash_router %x, %t, %w table %e {scoring = #moe.scoring<sigmoid>} : (tensor<?x40xf32>, tensor<?xi32>, tensor<9x40xf32>, tensor<263x3xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  return
}

// -----

func.func @table_scale(%x: tensor<?x40xf32>, %t: tensor<?xi32>, %w: tensor<9x40xf32>, %e: tensor<263x3xi32>, %s: tensor<8xf32>) {
  // expected-error @below {{expected expert_scale length 9 to match weight rows, got 8}}
  %i, %r = moe.hash_router %x, %t, %w table %e expert_scale %s {scoring = #moe.scoring<sigmoid>} : (tensor<?x40xf32>, tensor<?xi32>, tensor<9x40xf32>, tensor<263x3xi32>, tensor<8xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  return
}

// -----

func.func @limit(%x: tensor<?x40xf32>, %w: tensor<24x40xf32>, %d: tensor<40x24xf32>) {
  // expected-error @below {{expected a limit with silu alone, and not fused}}
  %y = moe.ffn %x, %w, %w, %d {limit = 1.5, fused} : (tensor<?x40xf32>, tensor<24x40xf32>, tensor<24x40xf32>, tensor<40x24xf32>) -> tensor<?x40xf32>
  return
}

// -----

func.func @none_first(%i: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error @below {{expected last_ids columns from 1 to 1, got 2}}
  %a, %b, %c, %d = moe.split_choices %i, %w {experts = 9} : (tensor<?x2xi32>, tensor<?x2xf32>) -> (tensor<?x1xi32>, tensor<?x1xf32>, tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @lost(%i: tensor<?x5xi32>, %w: tensor<?x5xf32>) {
  // expected-error @below {{expected first_ids columns 3 (those not in last_ids), got 2}}
  %a, %b, %c, %d = moe.split_choices %i, %w {experts = 9} : (tensor<?x5xi32>, tensor<?x5xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>, tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @factors(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %m: tensor<?x2xf32>, %u: tensor<5x32x64xf32>, %d: tensor<5x64x32xf32>, %s: tensor<4x1xf32>) {
  // expected-error @below {{expected gate_scale rows 5 to match experts, got 4}}
  %y = moe.experts %x, %i, %m, %u, %u, %d gate_scale %s : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<5x32x64xf32>, tensor<5x32x64xf32>, tensor<5x64x32xf32>, tensor<4x1xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @limited(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %m: tensor<?x2xf32>, %u: tensor<5x32x64xf32>, %d: tensor<5x64x32xf32>, %s: tensor<5x1xf32>) {
  // expected-error @below {{expected neither a limit nor biases of gate and up beside scales, and no fused kernel}}
  %y = moe.experts %x, %i, %m, %u, %u, %d gate_scale %s {limit = 7.0} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<5x32x64xf32>, tensor<5x32x64xf32>, tensor<5x64x32xf32>, tensor<5x1xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @block_choice(%q: tensor<?x40xf32>, %kv: !moe.kv<20>) {
  // expected-error @below {{expected result columns 6 (groups * top_k), got 4}}
  %c = moe.choose_blocks %q, %kv {groups = 2, key = 20, top_k = 3, ratio = 4, local = 1} : (tensor<?x40xf32>, !moe.kv<20>) -> tensor<?x4xi32>
  return
}

// -----

func.func @block_groups(%q: tensor<?x96xf32>, %kv: !moe.kv<384>, %c: tensor<?x4xi32>) {
  // expected-error @below {{expected groups to be 1 or kv_heads}}
  %a = moe.block_attention %q, %kv, %c {heads = 6, kv_heads = 3, key = 16, value = 16, scale = 0.25, groups = 2, ratio = 4, local = 1} : (tensor<?x96xf32>, !moe.kv<384>, tensor<?x4xi32>) -> tensor<?x96xf32>
  return
}

// -----

func.func @block_width(%q: tensor<?x96xf32>, %kv: !moe.kv<256>, %c: tensor<?x4xi32>) {
  // expected-error @below {{expected kv width 384 of the padded heads, got 256}}
  %a = moe.block_attention %q, %kv, %c {heads = 6, kv_heads = 3, key = 16, value = 16, scale = 0.25, groups = 1, ratio = 4, local = 0} : (tensor<?x96xf32>, !moe.kv<256>, tensor<?x4xi32>) -> tensor<?x96xf32>
  return
}

// -----

func.func @no_block(%q: tensor<?x768xf32>, %kv: !moe.kv<64>, %b: tensor<?x3xi32>) {
  // expected-error @below {{expected block from 1 to}}
  %d = moe.choose_entries %q, %kv within %b {heads = 12, key = 64, top_k = 16, scale = 0.125} : (tensor<?x768xf32>, !moe.kv<64>, tensor<?x3xi32>) -> tensor<?x16xi32>
  return
}

// -----

func.func @ape_alone(%x: tensor<?x64xf32>, %ape: tensor<4x64xf32>) {
  // expected-error @below {{expected a gate with ape}}
  %e = moe.compress %x ape %ape {layer = 2, part = 2, ratio = 4} : (tensor<?x64xf32>, tensor<4x64xf32>) -> tensor<?x64xf32>
  return
}
