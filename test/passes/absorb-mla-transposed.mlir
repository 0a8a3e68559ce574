// RUN: moe-opt %s -split-input-file -moe-absorb-mla="mla=factored" | FileCheck %s
// RUN: moe-opt %s -split-input-file -moe-absorb-mla="mla=factored weights=pack" | FileCheck %s
// RUN: moe-opt %s -split-input-file -moe-absorb-mla="mla=factored weights=reference" | FileCheck %s --check-prefix=REFERENCE
// RUN: moe-opt %s -split-input-file -moe-absorb-mla="mla=none" | FileCheck %s --check-prefix=NONE

// Whether absorb_query gets a transposed copy of W_UK, which a gemm can read.

// REFERENCE-NOT: #moe.transpose
// NONE-NOT: #moe.transpose

// Blocks of 256 elements along a row become blocks of 32 along a column.

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", cores = 32 : i64, memory_bytes = 549755813888 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}
// CHECK: %[[V:.*]] = moe.weight_ref @kv.values
// CHECK: %[[KT:.*]] = moe.weight_ref @kv.keys.transposed : tensor<16x512x128x!moe.q8_0>
// CHECK: moe.absorb_query %{{.*}}, %[[KT]] {heads = 16 : i64, k_transposed,
// CHECK-SAME: moe.reason = "MLA form factored as requested. W_UK is transposed when weights are packed, to 1.1 MB as Q8_0 from 589.8 kB as Q4_K: a gemm reads it, and no step makes floats of it."
// CHECK: moe.latent_attention {{.*}}moe.reason = "MLA form factored as requested."
// CHECK: moe.expand_value %{{.*}}, %[[V]]
// REFERENCE: moe.absorb_query
// REFERENCE-NOT: k_transposed
// REFERENCE-SAME: moe.reason = "MLA form factored as requested. W_UK is read as floats: weights=reference forbids a transposed copy."
module attributes {moe.target = #xeon} {
moe.weight @kv : tensor<16x160x512x!moe.q4_k> = #moe.tensor<file = 0, offset = 0>
moe.weight @kv.keys : tensor<16x128x512x!moe.q4_k> = #moe.slice<dim = 1, begin = 0> of [@kv]
moe.weight @kv.values : tensor<16x32x512x!moe.q4_k> = #moe.slice<dim = 1, begin = 128> of [@kv]
func.func @decode(%q: tensor<?x2560xf32>, %kv: !moe.kv<544>) -> tensor<?x512xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 4096>} {
  %wk = moe.weight_ref @kv.keys : tensor<16x128x512x!moe.q4_k>
  %wv = moe.weight_ref @kv.values : tensor<16x32x512x!moe.q4_k>
  %o = moe.mla_attention %q, %kv, %wk, %wv {heads = 16, nope = 128, rope = 32, latent = 512, value = 32, scale = 0.1, moe.label = #moe.label<"attn", layer = 0>} : (tensor<?x2560xf32>, !moe.kv<544>, tensor<16x128x512x!moe.q4_k>, tensor<16x32x512x!moe.q4_k>) -> tensor<?x512xf32>
  return %o : tensor<?x512xf32>
}
}

// -----

// 16-bit floats keep their format.

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", cores = 32 : i64, memory_bytes = 549755813888 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}
// CHECK: moe.weight_ref @kv.keys.transposed : tensor<2x64x48xf16>
// CHECK: moe.absorb_query {{.*}}k_transposed
module attributes {moe.target = #xeon} {
moe.weight @kv : tensor<2x80x64xf16> = #moe.tensor<file = 0, offset = 0>
moe.weight @kv.keys : tensor<2x48x64xf16> = #moe.slice<dim = 1, begin = 0> of [@kv]
moe.weight @kv.values : tensor<2x32x64xf16> = #moe.slice<dim = 1, begin = 48> of [@kv]
func.func @decode(%q: tensor<?x160xf32>, %kv: !moe.kv<96>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 4096>} {
  %wk = moe.weight_ref @kv.keys : tensor<2x48x64xf16>
  %wv = moe.weight_ref @kv.values : tensor<2x32x64xf16>
  %o = moe.mla_attention %q, %kv, %wk, %wv {heads = 2, nope = 48, rope = 32, latent = 64, value = 32, scale = 0.1, moe.label = #moe.label<"attn", layer = 0>} : (tensor<?x160xf32>, !moe.kv<96>, tensor<2x48x64xf16>, tensor<2x32x64xf16>) -> tensor<?x64xf32>
  return %o : tensor<?x64xf32>
}
}

// -----

// No gemm reads packed rows of F32.

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", cores = 32 : i64, memory_bytes = 549755813888 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}
// CHECK-NOT: #moe.transpose
// CHECK: moe.absorb_query
// CHECK-NOT: k_transposed
// CHECK-SAME: W_UK is read as floats: F32 has no gemm on packed rows for avx512."
module attributes {moe.target = #xeon} {
moe.weight @kv : tensor<2x96x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @kv.keys : tensor<2x64x64xf32> = #moe.slice<dim = 1, begin = 0> of [@kv]
moe.weight @kv.values : tensor<2x32x64xf32> = #moe.slice<dim = 1, begin = 64> of [@kv]
func.func @decode(%q: tensor<?x192xf32>, %kv: !moe.kv<96>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 4096>} {
  %wk = moe.weight_ref @kv.keys : tensor<2x64x64xf32>
  %wv = moe.weight_ref @kv.values : tensor<2x32x64xf32>
  %o = moe.mla_attention %q, %kv, %wk, %wv {heads = 2, nope = 64, rope = 32, latent = 64, value = 32, scale = 0.1, moe.label = #moe.label<"attn", layer = 0>} : (tensor<?x192xf32>, !moe.kv<96>, tensor<2x64x64xf32>, tensor<2x32x64xf32>) -> tensor<?x64xf32>
  return %o : tensor<?x64xf32>
}
}

// -----

// Columns that are not whole blocks.

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", cores = 32 : i64, memory_bytes = 549755813888 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}
// CHECK-NOT: #moe.transpose
// CHECK: moe.absorb_query
// CHECK-NOT: k_transposed
// CHECK-SAME: W_UK is read as floats: columns of 48 elements are not whole blocks of Q8_0."
module attributes {moe.target = #xeon} {
moe.weight @kv : tensor<2x80x64x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @kv.keys : tensor<2x48x64x!moe.q8_0> = #moe.slice<dim = 1, begin = 0> of [@kv]
moe.weight @kv.values : tensor<2x32x64x!moe.q8_0> = #moe.slice<dim = 1, begin = 48> of [@kv]
func.func @decode(%q: tensor<?x160xf32>, %kv: !moe.kv<96>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 4096>} {
  %wk = moe.weight_ref @kv.keys : tensor<2x48x64x!moe.q8_0>
  %wv = moe.weight_ref @kv.values : tensor<2x32x64x!moe.q8_0>
  %o = moe.mla_attention %q, %kv, %wk, %wv {heads = 2, nope = 48, rope = 32, latent = 64, value = 32, scale = 0.1, moe.label = #moe.label<"attn", layer = 0>} : (tensor<?x160xf32>, !moe.kv<96>, tensor<2x48x64x!moe.q8_0>, tensor<2x32x64x!moe.q8_0>) -> tensor<?x64xf32>
  return %o : tensor<?x64xf32>
}
}

// -----

// The model file already has it transposed.

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", cores = 32 : i64, memory_bytes = 549755813888 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}
// CHECK-NOT: #moe.transpose
// CHECK: moe.absorb_query {{.*}}k_transposed, {{.*}}moe.reason = "MLA form factored as requested."
module attributes {moe.target = #xeon} {
moe.weight @k : tensor<2x64x64x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @v : tensor<2x32x64x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%q: tensor<?x192xf32>, %kv: !moe.kv<96>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 4096>} {
  %wk = moe.weight_ref @k : tensor<2x64x64x!moe.q8_0>
  %wv = moe.weight_ref @v : tensor<2x32x64x!moe.q8_0>
  %o = moe.mla_attention %q, %kv, %wk, %wv {heads = 2, nope = 64, rope = 32, latent = 64, value = 32, scale = 0.1, k_transposed, moe.label = #moe.label<"attn", layer = 0>} : (tensor<?x192xf32>, !moe.kv<96>, tensor<2x64x64x!moe.q8_0>, tensor<2x32x64x!moe.q8_0>) -> tensor<?x64xf32>
  return %o : tensor<?x64xf32>
}
}

// -----

// A device without gemms on packed rows has nothing to gain.

#plain = {name = "plain", devices = [{name = "cpu0", kind = "cpu", isa = "ref", cores = 1 : i64, memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e9 : f64, float_ops = 1.0e9 : f64}]}
// CHECK-NOT: #moe.transpose
// CHECK: moe.absorb_query
// CHECK-NOT: k_transposed
// CHECK-SAME: moe.reason = "MLA form factored as requested."
module attributes {moe.target = #plain} {
moe.weight @kv : tensor<2x96x64x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @kv.keys : tensor<2x64x64x!moe.q8_0> = #moe.slice<dim = 1, begin = 0> of [@kv]
moe.weight @kv.values : tensor<2x32x64x!moe.q8_0> = #moe.slice<dim = 1, begin = 64> of [@kv]
func.func @decode(%q: tensor<?x192xf32>, %kv: !moe.kv<96>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 4096>} {
  %wk = moe.weight_ref @kv.keys : tensor<2x64x64x!moe.q8_0>
  %wv = moe.weight_ref @kv.values : tensor<2x32x64x!moe.q8_0>
  %o = moe.mla_attention %q, %kv, %wk, %wv {heads = 2, nope = 64, rope = 32, latent = 64, value = 32, scale = 0.1, moe.label = #moe.label<"attn", layer = 0>} : (tensor<?x192xf32>, !moe.kv<96>, tensor<2x64x64x!moe.q8_0>, tensor<2x32x64x!moe.q8_0>) -> tensor<?x64xf32>
  return %o : tensor<?x64xf32>
}
}
