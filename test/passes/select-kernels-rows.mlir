// RUN: moe-opt %s -moe-select-kernels -split-input-file | FileCheck %s

// A gemm is selected if its range in Gemms.def contains the most tokens of the
// phase: AMX tiles from 12, BF16 tiles from 7. With fewer tokens, activations
// are not rounded for it either.

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "amx", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e12 : f64, float_ops = 1.0e12 : f64}]}

module attributes {moe.target = #xeon} {
moe.weight @w : tensor<256x256x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
// CHECK-LABEL: func.func @eleven
// CHECK: moe.linear {{.*}} moe.kernels = #moe.kernels<{{.*}}linear_avx512(gemm_q8_0_rows16_avx512)>
func.func @eleven(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"batch", min_tokens = 2, max_tokens = 11, context = 64>} {
  %w = moe.weight_ref @w : tensor<256x256x!moe.q8_0>
  %a = moe.linear %x, %w {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256x!moe.q8_0>) -> tensor<?x256xf32>
  return %a : tensor<?x256xf32>
}
}

// -----

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "amx", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e12 : f64, float_ops = 1.0e12 : f64}]}

module attributes {moe.target = #xeon} {
moe.weight @w : tensor<256x256x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
// CHECK-LABEL: func.func @twelve
// CHECK: moe.linear {{.*}} moe.kernels = #moe.kernels<{{.*}}linear_avx512(gemm_q8_0_rows16_amx)>
func.func @twelve(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"batch", min_tokens = 2, max_tokens = 12, context = 64>} {
  %w = moe.weight_ref @w : tensor<256x256x!moe.q8_0>
  %a = moe.linear %x, %w {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256x!moe.q8_0>) -> tensor<?x256xf32>
  return %a : tensor<?x256xf32>
}
}

// -----

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "amx", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e12 : f64, float_ops = 1.0e12 : f64}]}

module attributes {moe.target = #xeon} {
moe.weight @w : tensor<256x256xbf16> = #moe.tensor<file = 0, offset = 0>
moe.weight @v : tensor<256x256xbf16> = #moe.tensor<file = 0, offset = 0>
// CHECK-LABEL: func.func @bf16_six
// CHECK: moe.linear {{.*}} moe.kernels = #moe.kernels<{{.*}}linear_avx512(gemm_bf16_rows16_avx512)>
func.func @bf16_six(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"batch", min_tokens = 2, max_tokens = 6, context = 64>} {
  %w = moe.weight_ref @w : tensor<256x256xbf16>
  %a = moe.linear %x, %w {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256xbf16>) -> tensor<?x256xf32>
  return %a : tensor<?x256xf32>
}
// CHECK-LABEL: func.func @bf16_seven
// CHECK: moe.linear {{.*}} moe.kernels = #moe.kernels<{{.*}}linear_avx512(gemm_bf16_rows16_amx)>
func.func @bf16_seven(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"prefill", min_tokens = 2, max_tokens = 7, context = 64>} {
  %w = moe.weight_ref @v : tensor<256x256xbf16>
  %a = moe.linear %x, %w {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256xbf16>) -> tensor<?x256xf32>
  return %a : tensor<?x256xf32>
}
}
