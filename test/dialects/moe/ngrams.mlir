// RUN: moe-opt %s --verify-roundtrip | FileCheck %s

moe.weight @table.weight : tensor<29x12xf32> = #moe.tensor<file = 0, offset = 64>

// CHECK-LABEL: func.func @rows
func.func @rows(%ids: tensor<?xi32>) -> tensor<?x24xf32> {
  %w = moe.weight_ref @table.weight : tensor<29x12xf32>
  // CHECK: %[[X:.*]], %{{.*}} = moe.ngram_embed %{{.*}}, %{{.*}} {layer = 1 : i64, map = array<i64: 0, 0, 1>, moduli = array<i64: 11, 13>, multipliers = array<i64: 9223372036854775807, 37, 5>, offsets = array<i64: 0, 16>, pad = 2 : i64, part = 3 : i64} : (tensor<?xi32>, tensor<29x12xf32>) -> (tensor<?x24xf32>, !moe.kv<1, f32>)
  %x, %h = moe.ngram_embed %ids, %w {layer = 1, part = 3, pad = 2, multipliers = array<i64: 9223372036854775807, 37, 5>, moduli = array<i64: 11, 13>, offsets = array<i64: 0, 16>, map = array<i64: 0, 0, 1>} : (tensor<?xi32>, tensor<29x12xf32>) -> (tensor<?x24xf32>, !moe.kv<1, f32>)
  // CHECK: moe.gate_streams %[[X]], %[[X]], %{{.*}} {streams = 2 : i64} : tensor<?x24xf32>, tensor<?x12xf32>
  %v = moe.regroup %x {groups = 1 : i64, offset = 0 : i64, parts = array<i64: 12>} : (tensor<?x24xf32>) -> tensor<?x12xf32>
  %g = moe.gate_streams %x, %x, %v {streams = 2} : tensor<?x24xf32>, tensor<?x12xf32>
  return %g : tensor<?x24xf32>
}
