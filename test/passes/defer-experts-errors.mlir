// RUN: moe-opt %s -split-input-file -moe-defer-experts='defer-experts=1' -verify-diagnostics
// RUN: not moe-opt %s -split-input-file -moe-defer-experts='defer-experts=3' 2>&1 | FileCheck %s
// RUN: not moe-opt %s -split-input-file -moe-defer-experts='defer-experts=-1' 2>&1 | FileCheck %s --check-prefix=FEW

// CHECK: error: cannot defer 3 experts per token: blk.0.ffn_experts uses 3
// CHECK: note: give a number from 1 to 2
// FEW: error: cannot defer -1 experts per token

module {
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
  %e1 = moe.experts %x0, %i1, %w1, %gate, %up, %down {moe.device = "cpu0", moe.label = #moe.label<"ffn_experts", layer = 1>} : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  %x1 = moe.add %x0, %e1 {moe.device = "gpu0", moe.label = #moe.label<"ffn_add", layer = 1>} : tensor<?x64xf32>
  return %x1 : tensor<?x64xf32>
}
}

// -----

// expected-error @below {{experts are to be deferred to the next layer, but the model has 1 layer with experts}}
// expected-note @below {{compile without --defer-experts}}
module {
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
  return %x0 : tensor<?x64xf32>
}
}

// -----

module {
moe.weight @blk.0.ffn_gate_inp.weight : tensor<8x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_gate_exps.weight : tensor<8x32x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_up_exps.weight : tensor<8x32x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_down_exps.weight : tensor<8x64x32xf32> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %wr = moe.weight_ref @blk.0.ffn_gate_inp.weight : tensor<8x64xf32>
  %gate = moe.weight_ref @blk.0.ffn_gate_exps.weight : tensor<8x32x64xf32>
  %up = moe.weight_ref @blk.0.ffn_up_exps.weight : tensor<8x32x64xf32>
  %down = moe.weight_ref @blk.0.ffn_down_exps.weight : tensor<8x64x32xf32>
  %i0, %w0 = moe.router %x, %wr {top_k = 1, scoring = #moe.scoring<softmax>, moe.device = "gpu0", moe.label = #moe.label<"router", layer = 0>} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x1xi32>, tensor<?x1xf32>)
  // expected-error @below {{cannot defer 1 expert per token: blk.0.ffn_experts uses 1}}
  // expected-note @below {{every layer but the last must use at least two experts per token}}
  %e0 = moe.experts %x, %i0, %w0, %gate, %up, %down {moe.device = "cpu0", moe.label = #moe.label<"ffn_experts", layer = 0>} : (tensor<?x64xf32>, tensor<?x1xi32>, tensor<?x1xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  %x0 = moe.add %x, %e0 {moe.device = "gpu0", moe.label = #moe.label<"ffn_add", layer = 0>} : tensor<?x64xf32>
  %i1, %w1 = moe.router %x0, %wr {top_k = 1, scoring = #moe.scoring<softmax>, moe.device = "gpu0", moe.label = #moe.label<"router", layer = 1>} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x1xi32>, tensor<?x1xf32>)
  %e1 = moe.experts %x0, %i1, %w1, %gate, %up, %down {moe.device = "cpu0", moe.label = #moe.label<"ffn_experts", layer = 1>} : (tensor<?x64xf32>, tensor<?x1xi32>, tensor<?x1xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  %x1 = moe.add %x0, %e1 {moe.device = "gpu0", moe.label = #moe.label<"ffn_add", layer = 1>} : tensor<?x64xf32>
  return %x1 : tensor<?x64xf32>
}
}
