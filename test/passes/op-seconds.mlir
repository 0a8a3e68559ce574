// RUN: moe-opt %s -moe-select-kernels=weights=reference -moe-lower-to-plan | FileCheck %s
// RUN: sed 's|, kernels = \[.*\]}\]}|}]}|' %s | moe-opt -moe-select-kernels=weights=reference -moe-lower-to-plan | FileCheck %s --check-prefix=PEAKS

// On this artificial machine, an op's time is the sum over its instructions,
// each at its kernel's rate. A matrix of 64 x 64 in Q8_0 has 4352 bytes.
#phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>
module attributes {
  moe.files = [{bytes = 1000000 : i64, header_bytes = 0 : i64, header_hash = "0123456789abcdef0123456789abcdef", path = "m"}],
  moe.model = {architecture = "a", name = "n", hash = "h", hidden = 64 : i64, vocab = 64 : i64, layers = 1 : i64, experts = 0 : i64, experts_used = 0 : i64, parameters = 0 : i64},
  moe.target = {name = "made-up", devices = [{name = "cpu0", kind = "cpu", isa = "avx2", cores = 1 : i64, memory_bytes = 1000000000 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e9 : f64, float_ops = 1.0e9 : f64, kernels = [{kernel = "gemm_q8_0_avx2", at = array<f64: 1.0>, memory = array<f64: 4352.0>}, {kernel = "quantize_avx2", at = array<f64: 1.0>, memory = array<f64: 320.0>}]}]}} {
  moe.weight @w : tensor<64x64x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
  moe.weight @v : tensor<64x64x!moe.q8_0> = #moe.tensor<file = 0, offset = 4352>
  // One second for the gemm and one to quantise 64 floats, which only the first
  // op that reads them pays for.
  // CHECK: plan.explain "first" {{.*}} seconds 2.000000e+00
  // CHECK: plan.explain "second" {{.*}} seconds 1.000000e+00
  // Reading 4352 bytes at 1 GB/s takes less than 2 * 4096 operations at 1 G/s;
  // quantising takes almost nothing.
  // PEAKS: plan.explain "first" {{.*}} seconds 8.{{[0-9]+}}e-06
  func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #phase} {
    %w = moe.weight_ref @w : tensor<64x64x!moe.q8_0>
    %v = moe.weight_ref @v : tensor<64x64x!moe.q8_0>
    %a = moe.linear %x, %w {moe.label = #moe.label<"first">, moe.device = "cpu0"} : (tensor<?x64xf32>, tensor<64x64x!moe.q8_0>) -> tensor<?x64xf32>
    %b = moe.linear %x, %v {moe.label = #moe.label<"second">, moe.device = "cpu0"} : (tensor<?x64xf32>, tensor<64x64x!moe.q8_0>) -> tensor<?x64xf32>
    %s = moe.add %a, %b {moe.label = #moe.label<"sum">, moe.device = "cpu0"} : tensor<?x64xf32>
    return %s : tensor<?x64xf32>
  }
}
