// RUN: moe-opt %s -moe-apply-rules='place=*=cpu0,blk.*.ffn_experts=gpu0:3' | FileCheck %s
// RUN: moe-opt %s -moe-apply-rules='place=blk.0.ffn_experts=gpu0:3' | FileCheck %s --check-prefix=OPEN
// RUN: moe-opt %s -moe-apply-rules='place=*=cpu0,blk.*.ffn_experts=gpu0:8' | FileCheck %s --check-prefix=ALL
// RUN: moe-opt %s -moe-apply-rules='place=*=gpu0,blk.*.ffn_experts=cpu0,blk.*.ffn_experts=gpu0:3' -moe-place-devices -moe-fuse -moe-insert-transfers | FileCheck %s --check-prefix=MOVED
// RUN: not moe-opt %s -moe-apply-rules='place=*=gpu0:3' 2>&1 | FileCheck %s --check-prefix=OTHERS
// RUN: not moe-opt %s -moe-apply-rules='place=blk.*.ffn_experts=gpu0:9' 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not moe-opt %s -moe-apply-rules='place=blk.*.ffn_experts=gpu0:-1' 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not moe-opt %s -moe-apply-rules='place=blk.*.ffn_experts=gpu0:' 2>&1 | FileCheck %s --check-prefix=NUMBER

// A rule with a number places that many experts of a layer; the others follow
// earlier rules. Weights are views of the tensors' outer dimension.
// CHECK-DAG: moe.weight @"blk.0.ffn_up_exps.weight.0-2" : tensor<3x32x64xf32> = #moe.slice<dim = 0, begin = 0> of [@blk.0.ffn_up_exps.weight]
// CHECK-DAG: moe.weight @blk.0.ffn_up_exps.bias.0 : tensor<3x32xf32> = #moe.slice<dim = 0, begin = 0> of [@blk.0.ffn_up_exps.bias]
// CHECK-DAG: moe.weight @"blk.0.ffn_up_exps.weight.3-7" : tensor<5x32x64xf32> = #moe.slice<dim = 0, begin = 3> of [@blk.0.ffn_up_exps.weight]
// CHECK-LABEL: func.func @decode
// CHECK: %[[IDS:.*]], %[[MIX:.*]] = moe.router
// CHECK-DAG: %[[UP:.*]] = moe.weight_ref @"blk.0.ffn_up_exps.weight.0-2"
// CHECK-DAG: %[[BIAS:.*]] = moe.weight_ref @blk.0.ffn_up_exps.bias.0
// CHECK: %[[FIRST:.*]] = moe.experts %{{.*}}, %[[IDS]], %[[MIX]], {{.*}}moe.device = "gpu0", moe.label = #moe.label<"ffn_experts.0-2", layer = 0>, moe.reason = "On gpu0: the rule 'blk.*.ffn_experts=gpu0:3' asks for it.", slice = #moe.expert_slice<experts = 8, begin = 0, count = 3, share = 3.750000e-01>
// CHECK: moe.weight_ref @"blk.0.ffn_up_exps.weight.3-7"
// CHECK: %[[REST:.*]] = moe.experts %{{.*}}, %[[IDS]], %[[MIX]], {{.*}}moe.device = "cpu0", moe.label = #moe.label<"ffn_experts.3-7", layer = 0>, {{.*}}slice = #moe.expert_slice<experts = 8, begin = 3, count = 5, share = 6.250000e-01>
// CHECK: moe.add %[[FIRST]], %[[REST]] {moe.device = "cpu0", moe.label = #moe.label<"ffn_experts.sum", layer = 0>

// Without a rule for them the others are left to moe-place-devices.
// OPEN: moe.experts {{.*}}moe.device = "gpu0", {{.*}}"ffn_experts.0-2"
// OPEN: moe.experts
// OPEN-NOT: moe.device
// OPEN: "ffn_experts.3-7"

// A rule for all experts places the whole op.
// ALL: moe.experts {{.*}}moe.device = "gpu0", moe.label = #moe.label<"ffn_experts", layer = 0>
// ALL-NOT: slice

// The inputs of the experts and the sum of the remote ones are copied; the GPU
// only waits for that sum when it adds it.
// MOVED: %[[IDS:.*]], %[[MIX:.*]] = moe.router {{.*}}moe.device = "gpu0"
// MOVED-DAG: moe.transfer %[[IDS]] from "gpu0" to "cpu0"
// MOVED-DAG: moe.transfer %[[MIX]] from "gpu0" to "cpu0"
// MOVED: %[[FIRST:.*]] = moe.experts {{.*}}moe.device = "gpu0"
// MOVED-NOT: residual
// MOVED: %[[REST:.*]] = moe.experts {{.*}}moe.device = "cpu0"
// MOVED: %[[SENT:.*]] = moe.transfer %[[REST]] from "cpu0" to "gpu0"
// MOVED: moe.add %[[FIRST]], %[[SENT]] {moe.device = "gpu0"

// OTHERS: error: rule "*=gpu0:3" places a number of experts, but matches blk.0.router
// OTHERS: note: name routed experts alone, as in "blk.*.ffn_experts=gpu0:3"
// MANY: error: rule "blk.*.ffn_experts=gpu0:9" places 9 experts, but blk.0.ffn_experts has 8
// MANY: note: give a number from 1 to 8
// NUMBER: for a number of experts
// NUMBER: note: write it as in "blk.*.ffn_experts=gpu0:16"

#target = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 8388608 : i64, read_bps = 9.3e11 : f64, int8_ops = 3.0e14 : f64, float_ops = 1.5e14 : f64, link_bps = 2.5e10 : f64, link_latency = 8.0e-6 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 67108864 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}

module attributes {moe.target = #target} {
moe.weight @blk.0.ffn_gate_inp.weight : tensor<8x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_up_exps.weight : tensor<8x32x64xf32> = #moe.tensor<file = 0, offset = 4096>
moe.weight @blk.0.ffn_up_exps.bias : tensor<8x32xf32> = #moe.tensor<file = 0, offset = 2048>
moe.weight @blk.0.ffn_down_exps.weight : tensor<8x64x32xf32> = #moe.tensor<file = 0, offset = 69632>
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %wr = moe.weight_ref @blk.0.ffn_gate_inp.weight : tensor<8x64xf32>
  %up = moe.weight_ref @blk.0.ffn_up_exps.weight : tensor<8x32x64xf32>
  %b = moe.weight_ref @blk.0.ffn_up_exps.bias : tensor<8x32xf32>
  %down = moe.weight_ref @blk.0.ffn_down_exps.weight : tensor<8x64x32xf32>
  %ids, %mix = moe.router %x, %wr {moe.label = #moe.label<"router", layer = 0>, scoring = #moe.scoring<softmax>, top_k = 2 : i64} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  %y = moe.experts %x, %ids, %mix, %up, %up, %down up_bias %b {moe.label = #moe.label<"ffn_experts", layer = 0>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>, tensor<8x32xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
}
