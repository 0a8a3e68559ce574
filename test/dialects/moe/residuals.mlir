// RUN: moe-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: func.func @depth
func.func @depth(%x: tensor<?x64xf32>, %w: tensor<64xf32>) -> tensor<?x64xf32> {
  // CHECK: %[[S:.*]] = moe.concat %{{.*}}, %{{.*}} : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x128xf32>
  %s = moe.concat %x, %x : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x128xf32>
  // CHECK: moe.residual_mix %{{.*}}, %[[S]], %{{.*}} {eps = {{.*}}} : tensor<?x64xf32>, tensor<?x128xf32>, tensor<64xf32>
  %y = moe.residual_mix %x, %s, %w {eps = 1.0e-05} : tensor<?x64xf32>, tensor<?x128xf32>, tensor<64xf32>
  return %y : tensor<?x64xf32>
}

// CHECK-LABEL: func.func @situ
func.func @situ(%x: tensor<?x64xf32>, %u: tensor<32x64xf32>, %d: tensor<64x32xf32>) -> tensor<?x64xf32> {
  // CHECK: moe.ffn {{.*}} {limit = {{.*}}, soft_limit = 2.500000e+01 : f64}
  %y = moe.ffn %x, %u, %u, %d {limit = 4.0, soft_limit = 25.0} : (tensor<?x64xf32>, tensor<32x64xf32>, tensor<32x64xf32>, tensor<64x32xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
