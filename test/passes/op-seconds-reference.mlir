// RUN: split-file %s %t
// RUN: moe-opt %t/rejected.mlir -moe-place-devices=weights=reference | FileCheck %t/rejected.mlir
// RUN: moe-opt %t/rejected.mlir -moe-place-devices | FileCheck %t/rejected.mlir --check-prefix=PACKED
// RUN: moe-opt %t/plan.mlir -moe-insert-transfers -moe-select-kernels=weights=reference -moe-lower-to-plan | FileCheck %t/plan.mlir

// A made-up machine, on which a gemm of 64 x 64 Q8_0, 4352 bytes, takes a second
// on the model file's rows and a quarter of one on packed rows. Without packed
// weights nothing may be priced at a quarter.

//--- rejected.mlir
#phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>
module attributes {
  moe.target = {name = "made-up", devices = [
    {name = "gpu0", kind = "cuda", isa = "cuda", arch = 89 : i64, cores = 128 : i64, memory_bytes = 1000000000 : i64, read_bps = 9.3e11 : f64, int8_ops = 3.0e14 : f64, float_ops = 1.5e14 : f64, link_bps = 2.5e8 : f64, link_latency = 8.0e-6 : f64},
    {name = "cpu0", kind = "cpu", isa = "avx2", cores = 1 : i64, memory_bytes = 1000000000 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e9 : f64, float_ops = 1.0e9 : f64, kernels = [{kernel = "gemm_q8_0_avx2", at = array<f64: 1.0>, memory = array<f64: 4352.0>}, {kernel = "gemm_q8_0_rows16_avx2", at = array<f64: 1.0>, memory = array<f64: 17408.0>}]}]}} {
  moe.weight @w : tensor<64x64x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
  // What the op would take on the device that it is not on.
  // CHECK: #moe.rejected<device "cpu0" for "" seconds 1.000000e+00
  // PACKED: #moe.rejected<device "cpu0" for "" seconds 2.500000e-01
  func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #phase} {
    %w = moe.weight_ref @w : tensor<64x64x!moe.q8_0>
    %a = moe.linear %x, %w {moe.label = #moe.label<"first">, moe.device = "gpu0"} : (tensor<?x64xf32>, tensor<64x64x!moe.q8_0>) -> tensor<?x64xf32>
    return %a : tensor<?x64xf32>
  }
}

//--- plan.mlir
module attributes {
  moe.files = [{bytes = 1000000 : i64, header_bytes = 0 : i64, header_hash = "0123456789abcdef0123456789abcdef", path = "m"}],
  moe.model = {architecture = "a", name = "n", hash = "h", hidden = 64 : i64, vocab = 64 : i64, layers = 1 : i64, experts = 0 : i64, experts_used = 0 : i64, parameters = 0 : i64},
  moe.target = {name = "made-up", devices = [
    {name = "gpu0", kind = "cuda", isa = "cuda", arch = 89 : i64, cores = 128 : i64, memory_bytes = 1000000000 : i64, read_bps = 9.3e11 : f64, int8_ops = 3.0e14 : f64, float_ops = 1.5e14 : f64, link_bps = 2176.0 : f64, link_latency = 0.0 : f64, kernels = [{kernel = "gemm_q8_0_cuda", at = array<f64: 1.0>, memory = array<f64: 4352.0>}, {kernel = "gemm_q8_0_rows16_cuda", at = array<f64: 1.0>, memory = array<f64: 17408.0>}]},
    {name = "cpu0", kind = "cpu", isa = "avx2", cores = 1 : i64, memory_bytes = 1000000000 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e9 : f64, float_ops = 1.0e9 : f64, kernels = [{kernel = "gemm_q8_0_avx2", at = array<f64: 1.0>, memory = array<f64: 4352.0>}, {kernel = "gemm_q8_0_rows16_avx2", at = array<f64: 1.0>, memory = array<f64: 17408.0>}]}]}} {
  moe.weight @w : tensor<64x64x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
  moe.weight @v : tensor<64x64x!moe.q8_0> = #moe.tensor<file = 0, offset = 4352>
  // The link takes two seconds, and the product goes beside it.
  // CHECK: plan.explain "streamed" {{.*}} seconds 2.000000e+00
  func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64, sequences = 2>} {
    %w = moe.weight_ref @w : tensor<64x64x!moe.q8_0>
    %a = moe.linear %x, %w {moe.label = #moe.label<"streamed">, moe.device = "gpu0", moe.streamed} : (tensor<?x64xf32>, tensor<64x64x!moe.q8_0>) -> tensor<?x64xf32>
    return %a : tensor<?x64xf32>
  }
  // Both rows are multiplied with what is read once.
  // CHECK: plan.explain "head" phase "batch" {{.*}} seconds 1.000000e+00
  func.func @logits(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"logits", min_tokens = 1, max_tokens = 2, context = 64, sequences = 2>} {
    %v = moe.weight_ref @v : tensor<64x64x!moe.q8_0>
    %a = moe.lm_head %x, %v {moe.label = #moe.label<"head">, moe.device = "cpu0"} : (tensor<?x64xf32>, tensor<64x64x!moe.q8_0>) -> tensor<?x64xf32>
    return %a : tensor<?x64xf32>
  }
}
