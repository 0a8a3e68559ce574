// RUN: moe-opt %s -moe-specialize-phases="ubatch=512 ctx=4096" | FileCheck %s
// RUN: moe-opt %s -moe-specialize-phases="ubatch=1 ctx=4096" | FileCheck %s --check-prefix=ONE
// RUN: moe-opt %s -moe-specialize-phases="ubatch=512 decode-tokens=8 ctx=4096" | FileCheck %s --check-prefix=FEW
// RUN: moe-opt %s -moe-specialize-phases="ubatch=512 ctx=64" | FileCheck %s --check-prefix=SHORT

// The ranges of decode and prefill are adjacent, and @forward is gone.
// CHECK: module {
// CHECK-NOT: @forward
// CHECK: func.func @decode
// CHECK-SAME: moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 4096>
// CHECK: moe.embedding
// CHECK: func.func @prefill
// CHECK-SAME: moe.phase = #moe.phase<"prefill", min_tokens = 2, max_tokens = 512, context = 4096>
// CHECK: moe.embedding
// CHECK-NOT: @forward
// CHECK: func.func @logits
// CHECK-SAME: moe.phase = #moe.phase<"logits", min_tokens = 1, max_tokens = 64, context = 4096>

// One token at a time needs no second function.
// ONE-NOT: @prefill
// ONE: max_tokens = 1, context
// ONE-NOT: @prefill

// FEW: "decode", min_tokens = 1, max_tokens = 8
// FEW: "prefill", min_tokens = 9, max_tokens = 512

// A step is never longer than the cache.
// SHORT: "prefill", min_tokens = 2, max_tokens = 64, context = 64
module {
  moe.weight @token_embd.weight : tensor<100x64xf32> = #moe.tensor<file = 0, offset = 0>
  moe.weight @output.weight : tensor<100x64xf32> = #moe.tensor<file = 0, offset = 0>
  func.func @forward(%tokens: tensor<?xi32>) -> tensor<?x64xf32> {
    %table = moe.weight_ref @token_embd.weight : tensor<100x64xf32>
    %x = moe.embedding %tokens, %table : (tensor<?xi32>, tensor<100x64xf32>) -> tensor<?x64xf32>
    return %x : tensor<?x64xf32>
  }
  func.func @logits(%hidden: tensor<?x64xf32>) -> tensor<?x100xf32> {
    %head = moe.weight_ref @output.weight : tensor<100x64xf32>
    %y = moe.lm_head %hidden, %head : (tensor<?x64xf32>, tensor<100x64xf32>) -> tensor<?x100xf32>
    return %y : tensor<?x100xf32>
  }
}
