// RUN: moe-opt %s --moe-print-cost="tokens=4 context=10" -o /dev/null | FileCheck %s

// With a router profile, a step reads the experts that its tokens are expected
// to choose, 24576 bytes each.

moe.weight @u : tensor<8x32x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @d : tensor<8x64x32xf32> = #moe.tensor<file = 0, offset = 65536>

// CHECK-LABEL: @experts tokens=4
func.func @experts(%x: tensor<?x64xf32>, %ids: tensor<?x2xi32>, %p: tensor<?x2xf32>) -> tensor<?x64xf32> {
  %up = moe.weight_ref @u : tensor<8x32x64xf32>
  %down = moe.weight_ref @d : tensor<8x64x32xf32>
  // All tokens choose the same two of eight; the FLOPs do not change.
  // CHECK-NEXT: two moe.experts flops=100352 weights=49152
  %two = moe.experts %x, %ids, %p, %up, %up, %down {moe.frequencies = array<f32: 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0>, moe.label = #moe.label<"two">} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  // One expert always, and two that every other token chooses: 1 + 2 * (1 - 1 /
  // 16).
  // CHECK-NEXT: some moe.experts flops=100352 weights=70656
  %some = moe.experts %two, %ids, %p, %up, %up, %down {moe.frequencies = array<f32: 1.0, 0.0, 0.0, 0.5, 0.0, 0.5, 0.0, 0.0>, moe.label = #moe.label<"some">} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  // All experts are equally frequent, measured with four experts per token
  // instead of two: the same as without a profile.
  // CHECK-NEXT: alike moe.experts flops=100352 weights=134400
  %alike = moe.experts %some, %ids, %p, %up, %up, %down {moe.frequencies = array<f32: 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5>, moe.label = #moe.label<"alike">} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  return %alike : tensor<?x64xf32>
}
