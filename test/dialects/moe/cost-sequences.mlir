// RUN: moe-opt %s --moe-print-cost="tokens=4 context=10" -o /dev/null | FileCheck %s
// RUN: moe-opt %s --moe-print-cost="tokens=1 context=10" -o /dev/null | FileCheck %s --check-prefix=ONE

// Each token of a batch has a cache of its own; only weights are shared. Rows
// of the cache are 40 elements of 2 bytes.

moe.weight @n : tensor<32xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @b : tensor<2x36x32xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @b.keys : tensor<2x16x32xf32> = #moe.slice<dim = 1, begin = 0> of [@b]
moe.weight @b.values : tensor<2x20x32xf32> = #moe.slice<dim = 1, begin = 16> of [@b]

// CHECK-LABEL: @batch tokens=4 context=10
// ONE-LABEL: @batch tokens=1 context=10
func.func @batch(%q: tensor<?x48xf32>, %a: tensor<?x40xf32>) -> tensor<?x40xf32> attributes {moe.phase = #moe.phase<"batch", min_tokens = 2, max_tokens = 4, context = 64, sequences = 4>} {
  %norm = moe.weight_ref @n : tensor<32xf32>
  %wk = moe.weight_ref @b.keys : tensor<2x16x32xf32>
  %wv = moe.weight_ref @b.values : tensor<2x20x32xf32>
  // One row per sequence is written.
  // CHECK: moe.mla_latent {{.*}} kv=320
  %kv = moe.mla_latent %a, %norm {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 8, base = 1.0e4>} : (tensor<?x40xf32>, tensor<32xf32>) -> !moe.kv<40>
  // 4 * 11 rows are decompressed, 2 * 44 * 2 * (16 + 20) * 32, for as many pairs:
  // 44 * 2 * (2 * 24 + 2 * 20 + 4). Weights are read once.
  // CHECK: none moe.mla_attention flops=210848 weights=9216 {{.*}} kv=3520
  // ONE: none moe.mla_attention flops=52712 weights=9216 {{.*}} kv=880
  %o = moe.mla_attention %q, %kv, %wk, %wv {heads = 2, nope = 16, rope = 8, latent = 32, value = 20, scale = 0.25, moe.label = #moe.label<"none">} : (tensor<?x48xf32>, !moe.kv<40>, tensor<2x16x32xf32>, tensor<2x20x32xf32>) -> tensor<?x40xf32>
  %ql = moe.absorb_query %q, %wk {heads = 2, nope = 16, rope = 8, latent = 32} : (tensor<?x48xf32>, tensor<2x16x32xf32>) -> tensor<?x80xf32>
  // 44 * 2 * (2 * 40 + 2 * 32 + 4).
  // CHECK: factored moe.latent_attention flops=13024 {{.*}} kv=3520
  // ONE: factored moe.latent_attention flops=3256 {{.*}} kv=880
  %ol = moe.latent_attention %ql, %kv {heads = 2, latent = 32, rope = 8, scale = 0.25, moe.label = #moe.label<"factored">} : (tensor<?x80xf32>, !moe.kv<40>) -> tensor<?x64xf32>
  return %o : tensor<?x40xf32>
}

// Two sequences with two tokens each.
// CHECK-LABEL: @two tokens=4 context=10
func.func @two(%q: tensor<?x80xf32>, %a: tensor<?x40xf32>, %norm: tensor<32xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"batch", min_tokens = 1, max_tokens = 8, context = 64, sequences = 2>} {
  %kv = moe.mla_latent %a, %norm {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 8, base = 1.0e4>} : (tensor<?x40xf32>, tensor<32xf32>) -> !moe.kv<40>
  // 2 * (11 + 12) pairs, 2 * 12 rows.
  // CHECK: moe.latent_attention flops=13616 {{.*}} kv=1920
  %o = moe.latent_attention %q, %kv {heads = 2, latent = 32, rope = 8, scale = 0.25} : (tensor<?x80xf32>, !moe.kv<40>) -> tensor<?x64xf32>
  return %o : tensor<?x64xf32>
}
