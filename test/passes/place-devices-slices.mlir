// RUN: moe-opt %s -moe-place-devices 2>&1 | FileCheck %s
// RUN: sed 's/100000/140000/' %s | moe-opt -moe-place-devices | FileCheck %s --check-prefix=WHOLE
// RUN: sed 's/100000/20000/' %s | moe-opt -moe-place-devices | FileCheck %s --check-prefix=NONE

// The GPU's remaining memory takes as many experts as fit of a layer that does
// not fit as a whole.
// CHECK: remark: gpu0 has attention of 1 of 1 layer, 5 of 8 experts of blk.0.ffn_experts
// CHECK: moe.router {{.*}}moe.device = "gpu0"
// CHECK: moe.experts {{.*}}moe.device = "gpu0", moe.label = #moe.label<"ffn_experts.0-4", layer = 0>, moe.reason = "On gpu0: 5 of 8 experts, expected to receive 62.5 % of the choices: no memory is left for more."
// CHECK: moe.experts {{.*}}moe.device = "cpu0", moe.label = #moe.label<"ffn_experts.5-7", layer = 0>, moe.reason = "On cpu0: {{.*}} 5 of 8 experts are on gpu0."
// CHECK: moe.add {{.*}}moe.device = "gpu0", moe.label = #moe.label<"ffn_experts.sum", layer = 0>, moe.reason = "On gpu0: adds the results of both devices' experts."

// Experts that fit go there as a whole.
// WHOLE: moe.experts {{.*}}moe.device = "gpu0", moe.label = #moe.label<"ffn_experts", layer = 0>
// WHOLE-NOT: slice

// A single expert is not worth the copies.
// NONE: moe.experts {{.*}}moe.device = "cpu0", moe.label = #moe.label<"ffn_experts", layer = 0>
// NONE-NOT: slice

#target = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 100000 : i64, read_bps = 9.3e11 : f64, int8_ops = 3.0e14 : f64, float_ops = 1.5e14 : f64, link_bps = 2.5e10 : f64, link_latency = 8.0e-7 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 67108864 : i64, read_bps = 2.2e8 : f64, int8_ops = 7.4e10 : f64, float_ops = 2.2e10 : f64}]}

module attributes {moe.target = #target} {
moe.weight @blk.0.ffn_gate_inp.weight : tensor<8x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_up_exps.weight : tensor<8x32x64xf32> = #moe.tensor<file = 0, offset = 4096>
moe.weight @blk.0.ffn_down_exps.weight : tensor<8x64x32xf32> = #moe.tensor<file = 0, offset = 69632>
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %wr = moe.weight_ref @blk.0.ffn_gate_inp.weight : tensor<8x64xf32>
  %up = moe.weight_ref @blk.0.ffn_up_exps.weight : tensor<8x32x64xf32>
  %down = moe.weight_ref @blk.0.ffn_down_exps.weight : tensor<8x64x32xf32>
  %ids, %mix = moe.router %x, %wr {moe.label = #moe.label<"router", layer = 0>, scoring = #moe.scoring<softmax>, top_k = 4 : i64} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x4xi32>, tensor<?x4xf32>)
  %y = moe.experts %x, %ids, %mix, %up, %up, %down {moe.label = #moe.label<"ffn_experts", layer = 0>} : (tensor<?x64xf32>, tensor<?x4xi32>, tensor<?x4xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
}
