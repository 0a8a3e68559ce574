// RUN: moe-opt %s -moe-reduce-experts="experts=2" | FileCheck %s
// RUN: moe-opt %s -moe-reduce-experts="experts=3" | FileCheck %s --check-prefix=SAME

// CHECK: moe.model = {experts = 8 : i64, experts_used = 2 : i64}
// CHECK: %[[IDS:.*]], %[[W:.*]] = moe.router
// CHECK-SAME: moe.reason = "Experts per token lowered from 3 to 2 on request."
// CHECK-SAME: top_k = 2 : i64
// CHECK-SAME: -> (tensor<?x2xi32>, tensor<?x2xf32>)
// CHECK: moe.experts %{{.*}}, %[[IDS]], %[[W]], {{.*}} (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>,

// SAME: experts_used = 3
// SAME-NOT: moe.reason
module attributes {moe.model = {experts = 8 : i64, experts_used = 3 : i64}} {
moe.weight @blk.0.ffn_gate_inp.weight : tensor<8x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_gate_exps.weight : tensor<8x32x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_up_exps.weight : tensor<8x32x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_down_exps.weight : tensor<8x64x32xf32> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %wr = moe.weight_ref @blk.0.ffn_gate_inp.weight : tensor<8x64xf32>
  %gate = moe.weight_ref @blk.0.ffn_gate_exps.weight : tensor<8x32x64xf32>
  %up = moe.weight_ref @blk.0.ffn_up_exps.weight : tensor<8x32x64xf32>
  %down = moe.weight_ref @blk.0.ffn_down_exps.weight : tensor<8x64x32xf32>
  %ids, %w = moe.router %x, %wr {top_k = 3, scoring = #moe.scoring<softmax>} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  %y = moe.experts %x, %ids, %w, %gate, %up, %down : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
}
