// RUN: moe-opt %s -split-input-file -moe-select-kernels | FileCheck %s
// RUN: moe-opt %s -split-input-file -moe-select-kernels=weights=pack | FileCheck %s
// RUN: moe-opt %s -split-input-file -moe-select-kernels | FileCheck %s --check-prefix=REJECTED
// RUN: moe-opt %s -split-input-file -moe-select-kernels=weights=reference | FileCheck %s --check-prefix=REFERENCE

// A weight has one layout per device in all phases, which the gemm's name
// shows. weights=reference keeps all weights in the file's layout.

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000 : i64, read_bps = 2.2e11 : f64}]}

// Both phases have gemms on packed rows.
// CHECK-LABEL: func.func @decode
// CHECK: moe.linear {{.*}}linear_avx512(gemm_q4_k_rows16_avx512){{.*}} moe.reason = "Weights packed as rows16."
// CHECK-LABEL: func.func @prefill
// CHECK: moe.linear {{.*}}linear_avx512(gemm_q4_k_rows16_avx512){{.*}} moe.reason = "Weights packed as rows16."
// REFERENCE-COUNT-2: linear_avx512(gemm_q4_k_avx512){{.*}} moe.reason = "Weights as in the model file: weights=reference.", moe.rejected = [#moe.rejected<layout "rows16" for "w" seconds {{[0-9.eE+-]+}} chosen "gguf" seconds {{[0-9.eE+-]+}}, "weights=reference">

// Rejected alternatives are recorded for each weight, with the seconds of its
// product.
// REJECTED-LABEL: func.func @decode
// REJECTED: moe.linear {{.*}}moe.rejected = [#moe.rejected<layout "gguf" for "w" seconds {{[0-9.eE+-]+}} chosen "rows16" seconds {{[0-9.eE+-]+}}, "rows16 has gemms for every phase that are no slower">, #moe.rejected<kernel "gemm_q4_k_rows16_avx2" for "w" seconds {{[0-9.eE+-]+}} chosen "gemm_q4_k_rows16_avx512" seconds {{[0-9.eE+-]+}}, "made for avx2, and not measured to be faster than the kernel for avx512">]
// REJECTED-LABEL: func.func @rows
// REJECTED: moe.linear {{.*}}#moe.rejected<layout "rows16" for "w8" {{.*}}, "would fill 8 rows up to 16">
// REJECTED: moe.ffn
module attributes {moe.target = #xeon} {
moe.weight @w : tensor<256x256x!moe.q4_k> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %w = moe.weight_ref @w : tensor<256x256x!moe.q4_k>
  %y = moe.linear %x, %w {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256x!moe.q4_k>) -> tensor<?x256xf32>
  return %y : tensor<?x256xf32>
}
func.func @prefill(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"prefill", min_tokens = 2, max_tokens = 512, context = 512>} {
  %w = moe.weight_ref @w : tensor<256x256x!moe.q4_k>
  %y = moe.linear %x, %w {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256x!moe.q4_k>) -> tensor<?x256xf32>
  return %y : tensor<?x256xf32>
}
}

// -----

// Too few rows for a panel, a format without packed layouts, and a weight that
// has one: reasons name the weights if they differ.

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000 : i64, read_bps = 2.2e11 : f64}]}
// CHECK-LABEL: func.func @rows
// CHECK: moe.linear {{.*}}linear_avx512(gemm_q8_0_avx512){{.*}} moe.reason = "Weights as in the model file: rows16 would fill 8 rows up to 16."
// CHECK: moe.linear {{.*}}linear_avx512(gemm_q8_0_rows16_avx512)
// CHECK: moe.linear {{.*}}linear_avx512(gemm_f32_avx512){{.*}} moe.reason = "Weights as in the model file: F32 has no gemm on another layout for avx512 and every phase."
// CHECK: moe.ffn {{.*}}moe.kernels = #moe.kernels<{{.*}}(gemm_f32_avx512){{.*}}(gemm_f32_avx512){{.*}}(gemm_q8_0_rows16_avx512)>,
// CHECK-SAME: moe.reason = "f32 as in the model file: F32 has no gemm on another layout for avx512 and every phase. q8 packed as rows16."
module attributes {moe.target = #xeon} {
moe.weight @w8 : tensor<8x32x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @w62 : tensor<62x32x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @f32 : tensor<32x32xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @q8 : tensor<32x32x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
func.func @rows(%x: tensor<?x32xf32>) -> tensor<?x32xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %w8 = moe.weight_ref @w8 : tensor<8x32x!moe.q8_0>
  // 62 rows padded to 64 waste little.
  %w62 = moe.weight_ref @w62 : tensor<62x32x!moe.q8_0>
  %f32 = moe.weight_ref @f32 : tensor<32x32xf32>
  %q8 = moe.weight_ref @q8 : tensor<32x32x!moe.q8_0>
  %a = moe.linear %x, %w8 {moe.device = "cpu0"} : (tensor<?x32xf32>, tensor<8x32x!moe.q8_0>) -> tensor<?x8xf32>
  %b = moe.linear %x, %w62 {moe.device = "cpu0"} : (tensor<?x32xf32>, tensor<62x32x!moe.q8_0>) -> tensor<?x62xf32>
  %c = moe.linear %x, %f32 {moe.device = "cpu0"} : (tensor<?x32xf32>, tensor<32x32xf32>) -> tensor<?x32xf32>
  %d = moe.ffn %c, %f32, %f32, %q8 {moe.device = "cpu0"} : (tensor<?x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32x!moe.q8_0>) -> tensor<?x32xf32>
  return %d : tensor<?x32xf32>
}
}

// -----

// One weight on two devices has a layout on each. Weights that a GPU's kernel
// reads as floats, and formats without panels, keep the file's layout.

#hybrid = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 1000 : i64, read_bps = 9.3e11 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000 : i64, read_bps = 2.2e11 : f64}]}
// CHECK-LABEL: func.func @devices
// CHECK: moe.linear {{.*}}moe.device = "gpu0", moe.kernels = #moe.kernels<quantize_cuda, linear_cuda(gemm_q4_k_rows16_cuda)>, moe.reason = "Weights packed as rows16.", moe.rejected = [#moe.rejected<layout "gguf" {{.*}}>]} :
// CHECK: moe.linear {{.*}}moe.device = "cpu0", {{.*}}linear_avx512(gemm_q4_k_rows16_avx512)
// CHECK: moe.expand_value {{.*}}moe.device = "gpu0", moe.kernels = #moe.kernels<head_linear_cuda(gemm_q8_0_cuda)>, moe.reason = "Weights as in the model file: the ops that read them take floats."
// CHECK: moe.expand_value {{.*}}moe.device = "cpu0", {{.*}}head_linear_avx512(gemm_q8_0_rows16_avx512)
// CHECK: moe.linear {{.*}}linear_cuda(gemm_f16_cuda)>, moe.reason = "Weights as in the model file: F16 has no gemm on another layout for cuda and every phase."
module attributes {moe.target = #hybrid} {
moe.weight @w : tensor<256x256x!moe.q4_k> = #moe.tensor<file = 0, offset = 0>
moe.weight @v : tensor<2x128x128x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @h : tensor<256x256xf16> = #moe.tensor<file = 0, offset = 0>
func.func @devices(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %w = moe.weight_ref @w : tensor<256x256x!moe.q4_k>
  %y = moe.linear %x, %w {moe.device = "gpu0"} : (tensor<?x256xf32>, tensor<256x256x!moe.q4_k>) -> tensor<?x256xf32>
  %z = moe.linear %y, %w {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256x!moe.q4_k>) -> tensor<?x256xf32>
  %v = moe.weight_ref @v : tensor<2x128x128x!moe.q8_0>
  %g = moe.expand_value %z, %v {heads = 2, latent = 128, value = 128, moe.device = "gpu0"} : (tensor<?x256xf32>, tensor<2x128x128x!moe.q8_0>) -> tensor<?x256xf32>
  %c = moe.expand_value %g, %v {heads = 2, latent = 128, value = 128, moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<2x128x128x!moe.q8_0>) -> tensor<?x256xf32>
  %h = moe.weight_ref @h : tensor<256x256xf16>
  %r = moe.linear %c, %h {moe.device = "gpu0"} : (tensor<?x256xf32>, tensor<256x256xf16>) -> tensor<?x256xf32>
  return %r : tensor<?x256xf32>
}
}

// -----

// The reference kernels have no gemms on packed rows, so there is no choice.

#plain = {name = "plain", devices = [{name = "cpu0", kind = "cpu", isa = "ref", memory_bytes = 1000 : i64, read_bps = 2.2e11 : f64}]}
// CHECK-LABEL: func.func @plain
// CHECK: moe.linear {{.*}}moe.kernels = #moe.kernels<linear_ref(gemm_q4_k_ref)>} :
module attributes {moe.target = #plain} {
moe.weight @w : tensor<256x256x!moe.q4_k> = #moe.tensor<file = 0, offset = 0>
func.func @plain(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %w = moe.weight_ref @w : tensor<256x256x!moe.q4_k>
  %y = moe.linear %x, %w {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256x!moe.q4_k>) -> tensor<?x256xf32>
  return %y : tensor<?x256xf32>
}
}
