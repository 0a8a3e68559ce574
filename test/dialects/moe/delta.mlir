// RUN: moe-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: func.func @delta
func.func @delta(%x: tensor<?x76xf32>, %b: tensor<?x4xf32>, %conv: tensor<76x4xf32>, %v: tensor<4xf32>) -> tensor<?x44xf32> {
  // CHECK: moe.delta_net %{{.*}}, %{{.*}}, %{{.*}} conv %{{.*}}, %{{.*}}, %{{.*}} {eps = {{[0-9.E-]+}} : f64, heads = 4 : i64, key = 8 : i64, key_heads = 2 : i64, layer = 3 : i64, tiled, value = 11 : i64}
  %y = moe.delta_net %x, %b, %b conv %conv, %v, %v {layer = 3, key_heads = 2, heads = 4, key = 8, value = 11, eps = 1.0e-06, tiled} : (tensor<?x76xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<76x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x44xf32>
  return %y : tensor<?x44xf32>
}

// CHECK-LABEL: func.func @regroup
func.func @regroup(%x: tensor<?x30xf32>) -> tensor<?x24xf32> {
  // CHECK: moe.regroup %{{.*}} {groups = 3 : i64, offset = 2 : i64, parts = array<i64: 5, 3>} : (tensor<?x30xf32>) -> tensor<?x24xf32>
  %y = moe.regroup %x {groups = 3, offset = 2, parts = array<i64: 5, 3>} : (tensor<?x30xf32>) -> tensor<?x24xf32>
  return %y : tensor<?x24xf32>
}
