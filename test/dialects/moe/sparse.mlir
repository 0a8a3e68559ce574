// RUN: moe-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: func.func @index
func.func @index(%h: tensor<?x64xf32>, %q: tensor<?x768xf32>, %w: tensor<?x12xf32>, %v: tensor<64xf32>) -> tensor<?x16xi32> {
  // CHECK: %[[K:.*]] = moe.layer_norm %{{.*}}, %{{.*}}, %{{.*}} {eps = {{.*}}} : tensor<?x64xf32>, tensor<64xf32>, tensor<64xf32>
  %k = moe.layer_norm %h, %v, %v {eps = 1.0e-06} : tensor<?x64xf32>, tensor<64xf32>, tensor<64xf32>
  // CHECK: %[[KV:.*]] = moe.row_store %[[K]] {layer = 3 : i64, part = 1 : i64} : (tensor<?x64xf32>) -> !moe.kv<64>
  %kv = moe.row_store %k {layer = 3, part = 1} : (tensor<?x64xf32>) -> !moe.kv<64>
  // CHECK: moe.choose_entries %{{.*}}, %[[KV]] weights %{{.*}} {heads = 12 : i64, key = 64 : i64, scale = {{.*}}, top_k = 16 : i64}
  %c = moe.choose_entries %q, %kv weights %w {heads = 12, key = 64, top_k = 16, scale = 0.125} : (tensor<?x768xf32>, tensor<?x12xf32>, !moe.kv<64>) -> tensor<?x16xi32>
  return %c : tensor<?x16xi32>
}

// CHECK-LABEL: func.func @bounds
func.func @bounds(%q: tensor<?x768xf32>, %kv: !moe.kv<64>) -> tensor<?x16xi32> {
  // CHECK: %{{.*}}, %[[B:.*]] = moe.choose_entries %{{.*}}, %{{.*}} {block = 8 : i64, heads = 12 : i64, {{.*}}} : (tensor<?x768xf32>, !moe.kv<64>) -> (tensor<?x16xi32>, tensor<?x3xi32>)
  %c, %b = moe.choose_entries %q, %kv {heads = 12, key = 64, top_k = 16, scale = 0.125, block = 8} : (tensor<?x768xf32>, !moe.kv<64>) -> (tensor<?x16xi32>, tensor<?x3xi32>)
  // CHECK: moe.choose_entries %{{.*}}, %{{.*}} within %[[B]] {block = 8 : i64
  %d = moe.choose_entries %q, %kv within %b {heads = 12, key = 64, top_k = 16, scale = 0.125, block = 8} : (tensor<?x768xf32>, !moe.kv<64>, tensor<?x3xi32>) -> tensor<?x16xi32>
  return %d : tensor<?x16xi32>
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<?x192xf32>, %kv: !moe.kv<32>, %c: tensor<?x14xi32>, %s: tensor<6xf32>) -> tensor<?x192xf32> {
  // CHECK: moe.sparse_attention %{{.*}} kv %{{.*}} entries %{{.*}} chosen %{{.*}} sinks %{{.*}} {heads = 6 : i64, key = 32 : i64, ratio = 4 : i64, scale = {{.*}}, value = 32 : i64, window = 9 : i64}
  %a = moe.sparse_attention %q kv %kv entries %kv chosen %c sinks %s {heads = 6, key = 32, value = 32, scale = 0.125, window = 9, ratio = 4} : (tensor<?x192xf32>, !moe.kv<32>, !moe.kv<32>, tensor<?x14xi32>, tensor<6xf32>) -> tensor<?x192xf32>
  // CHECK: moe.sparse_attention %{{.*}} entries %{{.*}} chosen %{{.*}} {heads
  %b = moe.sparse_attention %a entries %kv chosen %c {heads = 6, key = 32, value = 32, scale = 0.125, ratio = 1} : (tensor<?x192xf32>, !moe.kv<32>, tensor<?x14xi32>) -> tensor<?x192xf32>
  // CHECK: moe.sparse_attention %{{.*}} entries %{{.*}} chosen %{{.*}} {heads = 6 : i64, key = 32 : i64, pool = 4 : i64, ratio
  %d = moe.sparse_attention %b entries %kv chosen %c {heads = 6, key = 32, value = 32, scale = 0.125, ratio = 1, pool = 4} : (tensor<?x192xf32>, !moe.kv<32>, tensor<?x14xi32>) -> tensor<?x192xf32>
  return %d : tensor<?x192xf32>
}

// CHECK-LABEL: func.func @pooled
func.func @pooled(%q: tensor<?x40xf32>, %x: tensor<?x12xf32>, %wk: tensor<2x20x12xf32>, %wv: tensor<2x8x12xf32>, %c: tensor<?x3xi32>) -> tensor<?x16xf32> {
  // CHECK: moe.row_store %{{.*}} {layer = 0 : i64, ratio = 4 : i64}
  %k = moe.row_store %x {layer = 0, ratio = 4} : (tensor<?x12xf32>) -> !moe.kv<12>
  // CHECK: moe.mla_attention %{{.*}} chosen %{{.*}} {{{.*}}pool = 4 : i64, rope = 0 : i64
  %a = moe.mla_attention %q, %k, %wk, %wv chosen %c {heads = 2, nope = 20, rope = 0, latent = 12, value = 8, scale = 0.25, pool = 4} : (tensor<?x40xf32>, !moe.kv<12>, tensor<2x20x12xf32>, tensor<2x8x12xf32>, tensor<?x3xi32>) -> tensor<?x16xf32>
  return %a : tensor<?x16xf32>
}

// CHECK-LABEL: func.func @entries
func.func @entries(%x: tensor<?x64xf32>, %ape: tensor<4x64xf32>, %n: tensor<32xf32>) -> !moe.kv<32> {
  // CHECK: moe.compress %{{.*}} gate %{{.*}} ape %{{.*}} {layer = 2 : i64, overlap, part = 2 : i64, ratio = 4 : i64}
  %e = moe.compress %x gate %x ape %ape {layer = 2, part = 2, ratio = 4, overlap} : (tensor<?x64xf32>, tensor<?x64xf32>, tensor<4x64xf32>) -> tensor<?x32xf32>
  // CHECK: moe.entry_store %{{.*}}, %{{.*}} {eps = {{.*}}, layer = 2 : i64, part = 2 : i64, ratio = 4 : i64, rope = #moe.rope<dim = 8, base = 1.600000e+05, reversed = true>}
  %kv = moe.entry_store %e, %n {layer = 2, part = 2, ratio = 4, eps = 1.0e-06, rope = #moe.rope<dim = 8, base = 160000.0, reversed = true>} : (tensor<?x32xf32>, tensor<32xf32>) -> !moe.kv<32>
  return %kv : !moe.kv<32>
}

// CHECK-LABEL: func.func @streams
func.func @streams(%y: tensor<?x40xf32>, %m: tensor<?x24xf32>, %s: tensor<3xf32>, %b: tensor<24xf32>) -> tensor<?x40xf32> {
  // CHECK: %[[X:.*]] = moe.hyper_spread %{{.*}} {streams = 4 : i64}
  %x = moe.hyper_spread %y {streams = 4} : (tensor<?x40xf32>) -> tensor<?x160xf32>
  // CHECK: %[[W:.*]] = moe.hyper_weights %{{.*}}, %{{.*}}, %{{.*}} {eps = {{.*}}, iterations = 20 : i64, streams = 4 : i64}
  %w = moe.hyper_weights %m, %s, %b {streams = 4, iterations = 20, eps = 1.0e-06} : (tensor<?x24xf32>, tensor<3xf32>, tensor<24xf32>) -> tensor<?x24xf32>
  // CHECK: moe.hyper_spread %{{.*}} into %[[X]] by %[[W]] {streams = 4 : i64}
  %z = moe.hyper_spread %y into %x by %w {streams = 4} : (tensor<?x40xf32>, tensor<?x160xf32>, tensor<?x24xf32>) -> tensor<?x160xf32>
  // CHECK: moe.hyper_collapse %{{.*}}, %[[W]] {streams = 4 : i64}
  %r = moe.hyper_collapse %z, %w {streams = 4} : (tensor<?x160xf32>, tensor<?x24xf32>) -> tensor<?x40xf32>
  return %r : tensor<?x40xf32>
}

// CHECK-LABEL: func.func @choices
func.func @choices(%i: tensor<?x5xi32>, %w: tensor<?x5xf32>) -> tensor<?x2xi32> {
  // CHECK: moe.split_choices %{{.*}}, %{{.*}} {experts = 9 : i64} : (tensor<?x5xi32>, tensor<?x5xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>, tensor<?x2xi32>, tensor<?x2xf32>)
  %a, %b, %c, %d = moe.split_choices %i, %w {experts = 9} : (tensor<?x5xi32>, tensor<?x5xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>, tensor<?x2xi32>, tensor<?x2xf32>)
  return %c : tensor<?x2xi32>
}

// CHECK-LABEL: func.func @scales
func.func @scales(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %m: tensor<?x2xf32>, %u: tensor<5x32x64xf32>, %d: tensor<5x64x32xf32>, %s: tensor<5x1xf32>) -> tensor<?x64xf32> {
  // CHECK: moe.experts {{.*}} gate_scale %[[S:.*]] up_scale %[[S]] : (
  %y = moe.experts %x, %i, %m, %u, %u, %d gate_scale %s up_scale %s : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<5x32x64xf32>, tensor<5x32x64xf32>, tensor<5x64x32xf32>, tensor<5x1xf32>, tensor<5x1xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// CHECK-LABEL: func.func @router
func.func @router(%x: tensor<?x40xf32>, %t: tensor<?xi32>, %w: tensor<9x40xf32>, %e: tensor<263x3xi32>) -> tensor<?x3xf32> {
  // CHECK: moe.hash_router %{{.*}}, %{{.*}}, %{{.*}} table %{{.*}} {normalize, scoring = #moe.scoring<sqrt_softplus>}
  %i, %r = moe.hash_router %x, %t, %w table %e {scoring = #moe.scoring<sqrt_softplus>, normalize} : (tensor<?x40xf32>, tensor<?xi32>, tensor<9x40xf32>, tensor<263x3xi32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  return %r : tensor<?x3xf32>
}

// CHECK-LABEL: func.func @router_scale
func.func @router_scale(%x: tensor<?x40xf32>, %t: tensor<?xi32>, %w: tensor<9x40xf32>, %e: tensor<263x3xi32>, %s: tensor<9xf32>) -> tensor<?x3xf32> {
  // CHECK: moe.hash_router %{{.*}}, %{{.*}}, %{{.*}} table %{{.*}} expert_scale %{{.*}} {scoring
  %i, %r = moe.hash_router %x, %t, %w table %e expert_scale %s {scoring = #moe.scoring<sqrt_softplus>} : (tensor<?x40xf32>, tensor<?xi32>, tensor<9x40xf32>, tensor<263x3xi32>, tensor<9xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  return %r : tensor<?x3xf32>
}

// CHECK-LABEL: func.func @blocks
func.func @blocks(%q: tensor<?x40xf32>, %keys: !moe.kv<20>, %x: tensor<?x96xf32>, %kv: !moe.kv<384>) -> tensor<?x96xf32> {
  // CHECK: %[[C:.*]] = moe.choose_blocks %{{.*}}, %{{.*}} {groups = 2 : i64, key = 20 : i64, local = 1 : i64, ratio = 4 : i64, top_k = 3 : i64}
  %c = moe.choose_blocks %q, %keys {groups = 2, key = 20, top_k = 3, ratio = 4, local = 1} : (tensor<?x40xf32>, !moe.kv<20>) -> tensor<?x6xi32>
  // CHECK: moe.block_attention %{{.*}}, %{{.*}}, %[[C]] {groups = 1 : i64
  %a = moe.block_attention %x, %kv, %c {heads = 6, kv_heads = 3, key = 16, value = 16, scale = 0.25, groups = 1, ratio = 4, local = 1} : (tensor<?x96xf32>, !moe.kv<384>, tensor<?x6xi32>) -> tensor<?x96xf32>
  return %a : tensor<?x96xf32>
}
