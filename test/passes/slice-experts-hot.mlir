// RUN: moe-opt %s -moe-apply-rules='place=*=cpu0,blk.*.ffn_experts=gpu0:3' | FileCheck %s
// RUN: moe-opt %s -moe-apply-rules='place=*=cpu0,blk.*.ffn_experts=gpu0:2' | FileCheck %s --check-prefix=FIRST

// With known frequencies, the most used experts are chosen (the lower number
// wins ties): here 1, 5 and 6. Views of them are stacked for their device; the
// others stay in place.
// CHECK-DAG: moe.weight @"blk.0.ffn_up_exps.weight.1-1" : tensor<1x32x64xf32> = #moe.slice<dim = 0, begin = 1> of [@blk.0.ffn_up_exps.weight]
// CHECK-DAG: moe.weight @"blk.0.ffn_up_exps.weight.5-6" : tensor<2x32x64xf32> = #moe.slice<dim = 0, begin = 5> of [@blk.0.ffn_up_exps.weight]
// CHECK-DAG: moe.weight @blk.0.ffn_up_exps.weight.chosen : tensor<3x32x64xf32> = #moe.stack of [@"blk.0.ffn_up_exps.weight.1-1", @"blk.0.ffn_up_exps.weight.5-6"]
// CHECK-DAG: moe.weight @blk.0.ffn_up_exps.bias.5 : tensor<2x32xf32> = #moe.slice<dim = 0, begin = 5> of [@blk.0.ffn_up_exps.bias]
// CHECK-DAG: moe.weight @blk.0.ffn_up_exps.bias.chosen : tensor<3x32xf32> = #moe.stack of [{{.*}}]
// CHECK-LABEL: func.func @decode
// CHECK: %[[UP:.*]] = moe.weight_ref @blk.0.ffn_up_exps.weight : tensor<8x32x64xf32>
// CHECK: %[[HOT:.*]] = moe.weight_ref @blk.0.ffn_up_exps.weight.chosen
// CHECK: %[[A:.*]] = moe.experts {{.*}}moe.device = "gpu0", moe.label = #moe.label<"ffn_experts.chosen-3", layer = 0>, {{.*}}slice = #moe.expert_slice<experts = 8, begin = 0, count = 3, share = 7.500000e-01, map = [-1.000000e+00, 0.000000e+00, -1.000000e+00, -1.000000e+00, -1.000000e+00, 1.000000e+00, 2.000000e+00, -1.000000e+00]>
// CHECK: %[[B:.*]] = moe.experts {{.*}}, %[[UP]], %[[UP]], {{.*}}moe.device = "cpu0", moe.label = #moe.label<"ffn_experts.others-5", layer = 0>, {{.*}}slice = #moe.expert_slice<experts = 8, begin = 0, count = 8, share = 2.500000e-01, map = [0.000000e+00, -1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00, -1.000000e+00, -1.000000e+00, 7.000000e+00]>
// CHECK: moe.add %[[A]], %[[B]]
// CHECK-NOT: moe.frequencies

// A layer's first experts need no stack.
// FIRST-LABEL: func.func @first
// FIRST-NOT: .chosen
// FIRST: moe.experts {{.*}}"ffn_experts.0-1", {{.*}}slice = #moe.expert_slice<experts = 8, begin = 0, count = 2, share = 6.000000e-01>
// FIRST: moe.experts {{.*}}"ffn_experts.2-7", {{.*}}slice = #moe.expert_slice<experts = 8, begin = 2, count = 6, share = 4.000000e-01>

#target = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 8388608 : i64, read_bps = 9.3e11 : f64, int8_ops = 3.0e14 : f64, float_ops = 1.5e14 : f64, link_bps = 2.5e10 : f64, link_latency = 8.0e-6 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 67108864 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}

module attributes {moe.target = #target} {
moe.weight @blk.0.ffn_gate_inp.weight : tensor<8x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_up_exps.weight : tensor<8x32x64xf32> = #moe.tensor<file = 0, offset = 4096>
moe.weight @blk.0.ffn_up_exps.bias : tensor<8x32xf32> = #moe.tensor<file = 0, offset = 2048>
moe.weight @blk.0.ffn_down_exps.weight : tensor<8x64x32xf32> = #moe.tensor<file = 0, offset = 69632>
moe.weight @blk.1.ffn_gate_inp.weight : tensor<8x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.1.ffn_up_exps.weight : tensor<8x32x64xf32> = #moe.tensor<file = 0, offset = 4096>
moe.weight @blk.1.ffn_down_exps.weight : tensor<8x64x32xf32> = #moe.tensor<file = 0, offset = 69632>
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %wr = moe.weight_ref @blk.0.ffn_gate_inp.weight : tensor<8x64xf32>
  %up = moe.weight_ref @blk.0.ffn_up_exps.weight : tensor<8x32x64xf32>
  %b = moe.weight_ref @blk.0.ffn_up_exps.bias : tensor<8x32xf32>
  %down = moe.weight_ref @blk.0.ffn_down_exps.weight : tensor<8x64x32xf32>
  %ids, %mix = moe.router %x, %wr {moe.label = #moe.label<"router", layer = 0>, scoring = #moe.scoring<softmax>, top_k = 2 : i64} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  %y = moe.experts %x, %ids, %mix, %up, %up, %down up_bias %b {moe.frequencies = array<f32: 0.125, 0.75, 0.125, 0.125, 0.125, 0.5, 0.25, 0.0>, moe.label = #moe.label<"ffn_experts", layer = 0>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>, tensor<8x32xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @first(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %wr = moe.weight_ref @blk.1.ffn_gate_inp.weight : tensor<8x64xf32>
  %up = moe.weight_ref @blk.1.ffn_up_exps.weight : tensor<8x32x64xf32>
  %down = moe.weight_ref @blk.1.ffn_down_exps.weight : tensor<8x64x32xf32>
  %ids, %mix = moe.router %x, %wr {moe.label = #moe.label<"router", layer = 1>, scoring = #moe.scoring<softmax>, top_k = 2 : i64} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  %y = moe.experts %x, %ids, %mix, %up, %up, %down {moe.frequencies = array<f32: 0.5, 0.25, 0.125, 0.0, 0.125, 0.125, 0.0, 0.125>, moe.label = #moe.label<"ffn_experts", layer = 1>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
}
