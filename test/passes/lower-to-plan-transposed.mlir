// RUN: moe-opt %s -moe-select-kernels -moe-lower-to-plan | FileCheck %s
// RUN: moe-opt %s -moe-place-devices 2>&1 | FileCheck %s --check-prefix=BUDGET

// A transposed copy of W_UK is one entry for all phases, in the layout that
// their gemms read best.

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 10000000 : i64, reserved_bytes = 1000 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e12 : f64, float_ops = 1.0e12 : f64}]}

// CHECK: %[[K:.*]] = plan.weight "kv_b.keys" in %{{.*}} at 1024 : 4x64x32xQ4_0 strides [1728, 18]{{$}}
// CHECK: %[[KT:.*]] = plan.derived "kv_b.keys.transposed" = #moe.transpose of %[[K]] : 4x32x64xQ8_0
// CHECK: %[[PACKED:.*]] = plan.pack "kv_b.keys.transposed" of %[[KT]] layout rows16
// CHECK-NOT: plan.derived
// CHECK: plan.explain "absorb" phase "decode" on "cpu0" kernel "head_linear_avx512+gemm_q8_0_rows16_avx512" because "Weights packed as rows16." flops {{.*}} weights 8.704000e+03
// CHECK-LABEL: plan.phase "decode"
// CHECK: plan.inst head_linear {{.*}} ["head_linear_avx512", "gemm_q8_0_rows16_avx512"] (x = %{{.*}}, w = %[[PACKED]], out = %{{.*}}) {heads = 4, rows = 32, cols = 64, tail = 16}
// CHECK-LABEL: plan.phase "prefill"
// CHECK: plan.inst head_linear {{.*}} w = %[[PACKED]],

// The copy, 8704 bytes, is resident besides the 6912 of attn_kv_b.
// BUDGET: remark: cpu0: {{.*}}: 15.2 KiB of weights
module attributes {
  moe.target = #xeon,
  moe.model = {architecture = "deepseek2", name = "tiny", hash = "abc", hidden = 256 : i64, vocab = 512 : i64, layers = 1 : i64, experts = 4 : i64, experts_used = 2 : i64, parameters = 1000 : i64},
  moe.files = [{path = "m.gguf", bytes = 10000000 : i64, header_bytes = 1024 : i64, header_hash = "0123456789abcdef0123456789abcdef"}]} {
moe.weight @kv_b : tensor<4x96x32x!moe.q4_0> = #moe.tensor<file = 0, offset = 1024>
moe.weight @kv_b.keys : tensor<4x64x32x!moe.q4_0> = #moe.slice<dim = 1, begin = 0> of [@kv_b]
moe.weight @kv_b.values : tensor<4x32x32x!moe.q4_0> = #moe.slice<dim = 1, begin = 64> of [@kv_b]
moe.weight @kv_b.keys.transposed : tensor<4x32x64x!moe.q8_0> = #moe.transpose of [@kv_b.keys]
func.func @decode(%q: tensor<?x320xf32>) -> tensor<?x192xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %k = moe.weight_ref @kv_b.keys : tensor<4x64x32x!moe.q4_0>
  %v = moe.weight_ref @kv_b.values : tensor<4x32x32x!moe.q4_0>
  %kt = moe.weight_ref @kv_b.keys.transposed : tensor<4x32x64x!moe.q8_0>
  %ql = moe.absorb_query %q, %kt {heads = 4, nope = 64, rope = 16, latent = 32, k_transposed, moe.label = #moe.label<"absorb">, moe.device = "cpu0"} : (tensor<?x320xf32>, tensor<4x32x64x!moe.q8_0>) -> tensor<?x192xf32>
  return %ql : tensor<?x192xf32>
}
func.func @prefill(%q: tensor<?x320xf32>) -> tensor<?x192xf32> attributes {moe.phase = #moe.phase<"prefill", min_tokens = 2, max_tokens = 8, context = 64>} {
  %k = moe.weight_ref @kv_b.keys : tensor<4x64x32x!moe.q4_0>
  %v = moe.weight_ref @kv_b.values : tensor<4x32x32x!moe.q4_0>
  %kt = moe.weight_ref @kv_b.keys.transposed : tensor<4x32x64x!moe.q8_0>
  %ql = moe.absorb_query %q, %kt {heads = 4, nope = 64, rope = 16, latent = 32, k_transposed, moe.label = #moe.label<"absorb">, moe.device = "cpu0"} : (tensor<?x320xf32>, tensor<4x32x64x!moe.q8_0>) -> tensor<?x192xf32>
  return %ql : tensor<?x192xf32>
}
func.func @logits(%x: tensor<?x128xf32>) -> tensor<?x128xf32> attributes {moe.phase = #moe.phase<"logits", min_tokens = 1, max_tokens = 8, context = 64>} {
  %k = moe.weight_ref @kv_b.keys : tensor<4x64x32x!moe.q4_0>
  %v = moe.weight_ref @kv_b.values : tensor<4x32x32x!moe.q4_0>
  %y = moe.expand_value %x, %v {heads = 4, latent = 32, value = 32, moe.label = #moe.label<"expand">, moe.device = "cpu0"} : (tensor<?x128xf32>, tensor<4x32x32x!moe.q4_0>) -> tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}
}
