// RUN: moe-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: func.func @delta
func.func @delta(%x: tensor<?x76xf32>, %b: tensor<?x4xf32>, %conv: tensor<76x4xf32>, %v: tensor<4xf32>) -> tensor<?x44xf32> {
  // CHECK: moe.delta_net %{{.*}} beta %{{.*}} alpha %{{.*}} conv %{{.*}} decay %{{.*}}, %{{.*}} {eps = {{[0-9.E-]+}} : f64, heads = 4 : i64, key = 8 : i64, key_heads = 2 : i64, layer = 3 : i64, tiled, value = 11 : i64}
  %y = moe.delta_net %x beta %b alpha %b conv %conv decay %v, %v {layer = 3, key_heads = 2, heads = 4, key = 8, value = 11, eps = 1.0e-06, tiled} : (tensor<?x76xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<76x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x44xf32>
  return %y : tensor<?x44xf32>
}

// CHECK-LABEL: func.func @channels
func.func @channels(%x: tensor<?x32xf32>, %b: tensor<?x4xf32>, %f: tensor<?x32xf32>, %conv: tensor<32x4xf32>, %a: tensor<4xf32>, %dt: tensor<32xf32>) -> tensor<?x32xf32> {
  // CHECK: moe.delta_net %{{.*}}, %{{.*}}, %{{.*}} beta %{{.*}} alpha %{{.*}} conv %{{.*}}, %{{.*}}, %{{.*}} decay %{{.*}}, %{{.*}} {{{.*}}floor = -5.0{{.*}}
  %y = moe.delta_net %x, %x, %x beta %b alpha %f conv %conv, %conv, %conv decay %a, %dt {layer = 3, key_heads = 4, heads = 4, key = 8, value = 8, eps = 1.0e-06, floor = -5.0} : (tensor<?x32xf32>, tensor<?x32xf32>, tensor<?x32xf32>, tensor<?x4xf32>, tensor<?x32xf32>, tensor<32x4xf32>, tensor<32x4xf32>, tensor<32x4xf32>, tensor<4xf32>, tensor<32xf32>) -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// CHECK-LABEL: func.func @sums
func.func @sums(%x: tensor<?x76xf32>, %b: tensor<?x4xf32>, %conv: tensor<76x4xf32>, %bias: tensor<76xf32>, %v: tensor<4xf32>) -> tensor<?x44xf32> {
  // CHECK: moe.delta_net %{{.*}} alpha %{{.*}} conv %{{.*}} bias %{{.*}} decay %{{.*}}, %{{.*}} skip %{{.*}} {{{.*}}sums
  %y = moe.delta_net %x alpha %b conv %conv bias %bias decay %v, %v skip %v {layer = 3, key_heads = 2, heads = 4, key = 8, value = 11, eps = 0.0, sums} : (tensor<?x76xf32>, tensor<?x4xf32>, tensor<76x4xf32>, tensor<76xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x44xf32>
  return %y : tensor<?x44xf32>
}

// CHECK-LABEL: func.func @convolution
func.func @convolution(%x: tensor<?x72xf32>, %conv: tensor<72x3xf32>, %bias: tensor<72xf32>) -> tensor<?x72xf32> {
  // CHECK: moe.short_conv %{{.*}} conv %{{.*}} bias %{{.*}} {layer = 0 : i64}
  %y = moe.short_conv %x conv %conv bias %bias {layer = 0} : (tensor<?x72xf32>, tensor<72x3xf32>, tensor<72xf32>) -> tensor<?x72xf32>
  return %y : tensor<?x72xf32>
}

// CHECK-LABEL: func.func @dilated
func.func @dilated(%x: tensor<?x72xf32>, %conv: tensor<72x3xf32>) -> tensor<?x72xf32> {
  // CHECK: moe.short_conv %{{.*}} conv %{{.*}} {dilation = 16 : i64, layer = 0 : i64, part = 1 : i64, silu}
  %y = moe.short_conv %x conv %conv {layer = 0, part = 1, dilation = 16, silu} : (tensor<?x72xf32>, tensor<72x3xf32>) -> tensor<?x72xf32>
  return %y : tensor<?x72xf32>
}

// CHECK-LABEL: func.func @regroup
func.func @regroup(%x: tensor<?x30xf32>) -> tensor<?x24xf32> {
  // CHECK: moe.regroup %{{.*}} {groups = 3 : i64, offset = 2 : i64, parts = array<i64: 5, 3>} : (tensor<?x30xf32>) -> tensor<?x24xf32>
  %y = moe.regroup %x {groups = 3, offset = 2, parts = array<i64: 5, 3>} : (tensor<?x30xf32>) -> tensor<?x24xf32>
  return %y : tensor<?x24xf32>
}
