// RUN: moe-opt %s -split-input-file -verify-diagnostics

// Attributes with decisions of passes are verified.

func.func @label_is_text(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  // expected-error @+1 {{expected moe.label to be a #moe.label, got "blk.0.add"}}
  %y = moe.add %x, %x {moe.label = "blk.0.add"} : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

func.func @no_part(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  // expected-error @+1 {{expected the name of a part}}
  %y = moe.add %x, %x {moe.label = #moe.label<"", layer = 2>} : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

func.func @negative_layer(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  // expected-error @+1 {{expected layer not negative, got -2}}
  %y = moe.add %x, %x {moe.label = #moe.label<"add", layer = -2>} : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

func.func @unknown_attribute(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  // expected-error @+1 {{"moe.devices" is not an attribute of the dialect}}
  %y = moe.add %x, %x {moe.devices = "cpu0"} : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

func.func @device_is_a_number(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  // expected-error @+1 {{expected moe.device to be a device's name, got 0 : i64}}
  %y = moe.add %x, %x {moe.device = 0} : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

func.func @unknown_kernel(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  // expected-error @+1 {{expected the name of a kernel, got "add_sse"}}
  %y = moe.add %x, %x {moe.kernels = #moe.kernels<add_sse>} : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

func.func @unknown_gemm(%x: tensor<?x64xf32>, %w: tensor<32x64xf32>) -> tensor<?x32xf32> {
  // expected-error @+1 {{expected the name of a gemm, got "linear_ref"}}
  %y = moe.linear %x, %w {moe.kernels = #moe.kernels<linear_ref(linear_ref)>} : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// -----

func.func @two_encodings(%x: tensor<?x64xf32>, %w: tensor<32x64xf32>) -> tensor<?x32xf32> {
  // expected-error @+1 {{gemms of "linear_ref" read different encodings: "gemm_q8_0_avx512" and "gemm_f32_ref"}}
  %y = moe.linear %x, %w {moe.kernels = #moe.kernels<linear_ref(gemm_f32_ref, gemm_q8_0_avx512)>} : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// -----

func.func @no_gemm_for_a_weight(%x: tensor<?x64xf32>, %w: tensor<32x64xf32>) -> tensor<?x32xf32> {
  // expected-error @+1 {{moe.kernels has 0 gemms for 1 weights}}
  %y = moe.linear %x, %w {moe.kernels = #moe.kernels<linear_ref>} : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// -----

func.func @too_many_calls(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  // expected-error @+1 {{moe.kernels has 2 calls for 1 instructions}}
  %y = moe.add %x, %x {moe.kernels = #moe.kernels<add_ref, add_ref>} : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// An int8 gemm needs its Quantize.
func.func @no_quantize(%x: tensor<?x64xf32>, %w: tensor<32x64x!moe.q8_0>) -> tensor<?x32xf32> {
  // expected-error @+1 {{moe.kernels has 1 calls for 2 instructions}}
  %y = moe.linear %x, %w {moe.kernels = #moe.kernels<linear_avx512(gemm_q8_0_avx512)>} : (tensor<?x64xf32>, tensor<32x64x!moe.q8_0>) -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// -----

func.func @another_instruction(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  // expected-error @+1 {{moe.kernels names "activation_mul_ref" for another instruction}}
  %y = moe.add %x, %x {moe.kernels = #moe.kernels<activation_mul_ref>} : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// expected-error @+1 {{lowers to no instruction}}
func.func @no_instruction(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.kernels = #moe.kernels<add_ref>} {
  return %x : tensor<?x64xf32>
}
