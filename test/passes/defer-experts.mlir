// RUN: moe-opt %s -moe-defer-experts='defer-experts=1' --verify-roundtrip | FileCheck %s
// RUN: moe-opt %s -moe-defer-experts='defer-experts=1' -moe-insert-transfers | FileCheck %s --check-prefix=MOVED

// Choices are split on the device of the experts. A layer computes those with
// the largest weights; the results of the others are added in the next layer.
// The last layer computes all of its own.
// CHECK: moe.notes = ["generation adds the results of 1 expert per token one layer later, {{.*}}"]
// CHECK-LABEL: func.func @decode
// CHECK: %[[I0:.*]], %[[W0:.*]] = moe.router
// CHECK: %[[A0:.*]], %[[B0:.*]], %[[C0:.*]], %[[D0:.*]] = moe.split_choices %[[I0]], %[[W0]] {experts = 8 : i64, moe.device = "cpu0", moe.label = #moe.label<"ffn_experts.choices", layer = 0>, moe.reason = "Separates the experts whose results are added one layer later: 1 of 3."} : (tensor<?x3xi32>, tensor<?x3xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>, tensor<?x1xi32>, tensor<?x1xf32>)
// CHECK: %[[NOW0:.*]] = moe.experts %arg0, %[[A0]], %[[B0]], {{.*}}moe.label = #moe.label<"ffn_experts", layer = 0>
// CHECK: %[[LATE0:.*]] = moe.experts %arg0, %[[C0]], %[[D0]], {{.*}}{moe.deferred, moe.device = "cpu0", moe.label = #moe.label<"ffn_experts.late", layer = 0>, moe.reason = "Computes the experts with the smallest weights, 1 per token, for the next layer."}
// CHECK: %[[X0:.*]] = moe.add %arg0, %[[NOW0]]
// CHECK: %[[A1:.*]], %[[B1:.*]], %[[C1:.*]], %[[D1:.*]] = moe.split_choices {{.*}}moe.device = "gpu0"
// CHECK: %[[NOW1:.*]] = moe.experts %[[X0]], %[[A1]], %[[B1]],
// CHECK: %[[SUM1:.*]] = moe.add %[[NOW1]], %[[LATE0]] {moe.device = "gpu0", moe.label = #moe.label<"ffn_experts.late_sum", layer = 1>, moe.reason = "Adds the deferred result of blk.0.ffn_experts.late."}
// CHECK: %[[LATE1:.*]] = moe.experts %[[X0]], %[[C1]], %[[D1]], {{.*}}{moe.deferred
// CHECK: %[[X1:.*]] = moe.add %[[X0]], %[[SUM1]]
// CHECK: %[[I2:.*]], %[[W2:.*]] = moe.router
// CHECK-NOT: moe.split_choices
// CHECK: %[[NOW2:.*]] = moe.experts %[[X1]], %[[I2]], %[[W2]],
// CHECK: %[[SUM2:.*]] = moe.add %[[NOW2]], %[[LATE1]]
// CHECK: moe.add %[[X1]], %[[SUM2]]

// Prefill does not change, and decode for several sequences changes like decode
// for one.
// CHECK-LABEL: func.func @prefill
// CHECK-NOT: moe.split_choices
// CHECK-LABEL: func.func @batch
// CHECK: moe.split_choices

// Deferred results are copied right before their first use, because an earlier
// copy would delay the next layer.
// MOVED-LABEL: func.func @decode
// MOVED: %[[LATE:.*]] = moe.experts {{.*}}moe.deferred
// MOVED-NOT: moe.transfer %[[LATE]]
// MOVED: moe.router {{.*}}layer = 1
// MOVED: moe.experts
// MOVED-NEXT: %[[HERE:.*]] = moe.transfer %[[LATE]] from "cpu0" to "gpu0" {moe.deferred, moe.device = "gpu0"
// MOVED-NEXT: moe.add %{{.*}}, %[[HERE]]

#target = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 8388608 : i64, read_bps = 9.3e11 : f64, int8_ops = 3.0e14 : f64, float_ops = 1.5e14 : f64, link_bps = 2.5e10 : f64, link_latency = 8.0e-6 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 67108864 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}

module attributes {moe.target = #target} {
moe.weight @blk.0.ffn_gate_inp.weight : tensor<8x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_gate_exps.weight : tensor<8x32x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_up_exps.weight : tensor<8x32x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_down_exps.weight : tensor<8x64x32xf32> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %wr = moe.weight_ref @blk.0.ffn_gate_inp.weight : tensor<8x64xf32>
  %gate = moe.weight_ref @blk.0.ffn_gate_exps.weight : tensor<8x32x64xf32>
  %up = moe.weight_ref @blk.0.ffn_up_exps.weight : tensor<8x32x64xf32>
  %down = moe.weight_ref @blk.0.ffn_down_exps.weight : tensor<8x64x32xf32>
  %i0, %w0 = moe.router %x, %wr {top_k = 3, scoring = #moe.scoring<softmax>, moe.device = "gpu0", moe.label = #moe.label<"router", layer = 0>} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  %e0 = moe.experts %x, %i0, %w0, %gate, %up, %down {moe.device = "cpu0", moe.label = #moe.label<"ffn_experts", layer = 0>} : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  %x0 = moe.add %x, %e0 {moe.device = "gpu0", moe.label = #moe.label<"ffn_add", layer = 0>} : tensor<?x64xf32>
  %i1, %w1 = moe.router %x0, %wr {top_k = 3, scoring = #moe.scoring<softmax>, moe.device = "gpu0", moe.label = #moe.label<"router", layer = 1>} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  %e1 = moe.experts %x0, %i1, %w1, %gate, %up, %down {moe.device = "gpu0", moe.label = #moe.label<"ffn_experts", layer = 1>} : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  %x1 = moe.add %x0, %e1 {moe.device = "gpu0", moe.label = #moe.label<"ffn_add", layer = 1>} : tensor<?x64xf32>
  %i2, %w2 = moe.router %x1, %wr {top_k = 3, scoring = #moe.scoring<softmax>, moe.device = "gpu0", moe.label = #moe.label<"router", layer = 2>} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  %e2 = moe.experts %x1, %i2, %w2, %gate, %up, %down {moe.device = "cpu0", moe.label = #moe.label<"ffn_experts", layer = 2>} : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  %x2 = moe.add %x1, %e2 {moe.device = "gpu0", moe.label = #moe.label<"ffn_add", layer = 2>} : tensor<?x64xf32>
  return %x2 : tensor<?x64xf32>
}
func.func @prefill(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"prefill", min_tokens = 2, max_tokens = 8, context = 64>} {
  %wr = moe.weight_ref @blk.0.ffn_gate_inp.weight : tensor<8x64xf32>
  %gate = moe.weight_ref @blk.0.ffn_gate_exps.weight : tensor<8x32x64xf32>
  %up = moe.weight_ref @blk.0.ffn_up_exps.weight : tensor<8x32x64xf32>
  %down = moe.weight_ref @blk.0.ffn_down_exps.weight : tensor<8x64x32xf32>
  %i0, %w0 = moe.router %x, %wr {top_k = 3, scoring = #moe.scoring<softmax>, moe.device = "gpu0", moe.label = #moe.label<"router", layer = 0>} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  %e0 = moe.experts %x, %i0, %w0, %gate, %up, %down {moe.device = "cpu0", moe.label = #moe.label<"ffn_experts", layer = 0>} : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  %x0 = moe.add %x, %e0 {moe.device = "gpu0", moe.label = #moe.label<"ffn_add", layer = 0>} : tensor<?x64xf32>
  %i1, %w1 = moe.router %x0, %wr {top_k = 3, scoring = #moe.scoring<softmax>, moe.device = "gpu0", moe.label = #moe.label<"router", layer = 1>} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  %e1 = moe.experts %x0, %i1, %w1, %gate, %up, %down {moe.device = "gpu0", moe.label = #moe.label<"ffn_experts", layer = 1>} : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  %x1 = moe.add %x0, %e1 {moe.device = "gpu0", moe.label = #moe.label<"ffn_add", layer = 1>} : tensor<?x64xf32>
  %i2, %w2 = moe.router %x1, %wr {top_k = 3, scoring = #moe.scoring<softmax>, moe.device = "gpu0", moe.label = #moe.label<"router", layer = 2>} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  %e2 = moe.experts %x1, %i2, %w2, %gate, %up, %down {moe.device = "cpu0", moe.label = #moe.label<"ffn_experts", layer = 2>} : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  %x2 = moe.add %x1, %e2 {moe.device = "gpu0", moe.label = #moe.label<"ffn_add", layer = 2>} : tensor<?x64xf32>
  return %x2 : tensor<?x64xf32>
}
func.func @batch(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"batch", min_tokens = 2, max_tokens = 4, context = 64>} {
  %wr = moe.weight_ref @blk.0.ffn_gate_inp.weight : tensor<8x64xf32>
  %gate = moe.weight_ref @blk.0.ffn_gate_exps.weight : tensor<8x32x64xf32>
  %up = moe.weight_ref @blk.0.ffn_up_exps.weight : tensor<8x32x64xf32>
  %down = moe.weight_ref @blk.0.ffn_down_exps.weight : tensor<8x64x32xf32>
  %i0, %w0 = moe.router %x, %wr {top_k = 3, scoring = #moe.scoring<softmax>, moe.device = "gpu0", moe.label = #moe.label<"router", layer = 0>} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  %e0 = moe.experts %x, %i0, %w0, %gate, %up, %down {moe.device = "cpu0", moe.label = #moe.label<"ffn_experts", layer = 0>} : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  %x0 = moe.add %x, %e0 {moe.device = "gpu0", moe.label = #moe.label<"ffn_add", layer = 0>} : tensor<?x64xf32>
  %i1, %w1 = moe.router %x0, %wr {top_k = 3, scoring = #moe.scoring<softmax>, moe.device = "gpu0", moe.label = #moe.label<"router", layer = 1>} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  %e1 = moe.experts %x0, %i1, %w1, %gate, %up, %down {moe.device = "gpu0", moe.label = #moe.label<"ffn_experts", layer = 1>} : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  %x1 = moe.add %x0, %e1 {moe.device = "gpu0", moe.label = #moe.label<"ffn_add", layer = 1>} : tensor<?x64xf32>
  %i2, %w2 = moe.router %x1, %wr {top_k = 3, scoring = #moe.scoring<softmax>, moe.device = "gpu0", moe.label = #moe.label<"router", layer = 2>} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  %e2 = moe.experts %x1, %i2, %w2, %gate, %up, %down {moe.device = "cpu0", moe.label = #moe.label<"ffn_experts", layer = 2>} : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  %x2 = moe.add %x1, %e2 {moe.device = "gpu0", moe.label = #moe.label<"ffn_add", layer = 2>} : tensor<?x64xf32>
  return %x2 : tensor<?x64xf32>
}
}
