// RUN: moe-opt %s -moe-place-devices 2>&1 | FileCheck %s
// RUN: sed 's/moe.frequencies = array<f32: [^>]*>, //' %s | moe-opt -moe-place-devices | FileCheck %s --check-prefix=ALIKE

// With a router profile, the GPU's free memory gets the most used experts of
// both layers, by the time that they save, instead of the first experts of one
// layer.
// CHECK: remark: gpu0 has attention of 2 of 2 layers, the 5 most used of 16 experts of 2 layers, expected to receive 75.0 % of their choices
// CHECK: moe.notes = ["gpu0 has the 5 most used of 16 experts of 2 layers, expected to receive 75.0 % of their choices"]
// CHECK: "ffn_experts.chosen-2", layer = 0>, moe.reason = "On gpu0: 2 of 8 experts, those that the router profile has used most, expected to receive 81.2 % of the choices: no memory is left for more.", {{.*}}map = [-1.000000e+00, -1.000000e+00, 0.000000e+00, -1.000000e+00, -1.000000e+00, -1.000000e+00, 1.000000e+00, -1.000000e+00]
// CHECK: "ffn_experts.others-6", layer = 0>, moe.reason = "On cpu0: {{.*}} 2 of 8 experts are on gpu0."
// CHECK: "ffn_experts.chosen-3", layer = 1>, {{.*}}share = 6.875000e-01
// CHECK-NOT: moe.frequencies

// Without a profile all experts are equal.
// ALIKE-NOT: moe.notes
// ALIKE: "ffn_experts.0-{{[0-9]}}", layer = 1>
// ALIKE-NOT: moe.stack

#target = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 100000 : i64, read_bps = 9.3e11 : f64, int8_ops = 3.0e14 : f64, float_ops = 1.5e14 : f64, link_bps = 2.5e10 : f64, link_latency = 8.0e-7 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 67108864 : i64, read_bps = 2.2e8 : f64, int8_ops = 7.4e10 : f64, float_ops = 2.2e10 : f64}]}

module attributes {moe.target = #target} {
moe.weight @blk.0.ffn_gate_inp.weight : tensor<8x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_up_exps.weight : tensor<8x32x64xf32> = #moe.tensor<file = 0, offset = 4096>
moe.weight @blk.0.ffn_down_exps.weight : tensor<8x64x32xf32> = #moe.tensor<file = 0, offset = 69632>
moe.weight @blk.1.ffn_gate_inp.weight : tensor<8x64xf32> = #moe.tensor<file = 0, offset = 200000>
moe.weight @blk.1.ffn_up_exps.weight : tensor<8x32x64xf32> = #moe.tensor<file = 0, offset = 204096>
moe.weight @blk.1.ffn_down_exps.weight : tensor<8x64x32xf32> = #moe.tensor<file = 0, offset = 269632>
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %wr = moe.weight_ref @blk.0.ffn_gate_inp.weight : tensor<8x64xf32>
  %up = moe.weight_ref @blk.0.ffn_up_exps.weight : tensor<8x32x64xf32>
  %down = moe.weight_ref @blk.0.ffn_down_exps.weight : tensor<8x64x32xf32>
  %ids, %mix = moe.router %x, %wr {moe.label = #moe.label<"router", layer = 0>, scoring = #moe.scoring<softmax>, top_k = 2 : i64} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  %y = moe.experts %x, %ids, %mix, %up, %up, %down {moe.frequencies = array<f32: 0.0, 0.125, 0.75, 0.0, 0.125, 0.0, 0.875, 0.125>, moe.label = #moe.label<"ffn_experts", layer = 0>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  %wr1 = moe.weight_ref @blk.1.ffn_gate_inp.weight : tensor<8x64xf32>
  %up1 = moe.weight_ref @blk.1.ffn_up_exps.weight : tensor<8x32x64xf32>
  %down1 = moe.weight_ref @blk.1.ffn_down_exps.weight : tensor<8x64x32xf32>
  %ids1, %mix1 = moe.router %y, %wr1 {moe.label = #moe.label<"router", layer = 1>, scoring = #moe.scoring<softmax>, top_k = 2 : i64} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  %z = moe.experts %y, %ids1, %mix1, %up1, %up1, %down1 {moe.frequencies = array<f32: 0.125, 0.125, 0.125, 0.375, 0.125, 0.625, 0.125, 0.375>, moe.label = #moe.label<"ffn_experts", layer = 1>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  return %z : tensor<?x64xf32>
}
}
