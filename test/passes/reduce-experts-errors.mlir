// RUN: not moe-opt %s -moe-reduce-experts="experts=0" 2>&1 | FileCheck %s --check-prefix=FEW
// RUN: not moe-opt %s -moe-reduce-experts="experts=4" 2>&1 | FileCheck %s --check-prefix=MANY

moe.weight @blk.0.ffn_gate_inp.weight : tensor<8x64xf32> = #moe.tensor<file = 0, offset = 0>

// FEW: error: 0 experts per token are requested, but the model uses 3
// FEW: note: give a number from 1 to 3
// MANY: error: 4 experts per token are requested, but the model uses 3
// MANY: note: give a number from 1 to 3
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x3xf32> {
  %wr = moe.weight_ref @blk.0.ffn_gate_inp.weight : tensor<8x64xf32>
  %ids, %w = moe.router %x, %wr {top_k = 3, scoring = #moe.scoring<softmax>, moe.label = #moe.label<"ffn_router", layer = 0>} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  return %w : tensor<?x3xf32>
}
