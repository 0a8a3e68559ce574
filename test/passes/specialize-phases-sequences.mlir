// RUN: moe-opt %s -moe-specialize-phases="ctx=4096 sequences=8" | FileCheck %s
// RUN: moe-opt %s -moe-specialize-phases="ctx=100 ubatch=16 sequences=64" | FileCheck %s --check-prefix=SHORT
// RUN: moe-opt %s -moe-specialize-phases="ctx=100" | FileCheck %s --check-prefix=ONE
// RUN: not moe-opt %s -moe-specialize-phases="sequences=0" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not moe-opt %s -moe-specialize-phases="sequences=65" 2>&1 | FileCheck %s --check-prefix=MANY

// A step with one token of each of several sequences is a separate phase.
// CHECK: func.func @decode{{.*}}#moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 4096>
// CHECK: func.func @batch{{.*}}#moe.phase<"batch", min_tokens = 2, max_tokens = 8, context = 4096, sequences = 8>
// CHECK: func.func @prefill{{.*}}#moe.phase<"prefill", min_tokens = 2, max_tokens = 512, context = 4096>
// CHECK: func.func @logits{{.*}}#moe.phase<"logits", min_tokens = 1, max_tokens = 64, context = 4096, sequences = 8>

// There may be more sequences than tokens in a prefill step.
// SHORT: #moe.phase<"batch", min_tokens = 2, max_tokens = 64, context = 100, sequences = 64>
// SHORT: #moe.phase<"prefill", min_tokens = 2, max_tokens = 16, context = 100>
// SHORT: #moe.phase<"logits", min_tokens = 1, max_tokens = 64, context = 100, sequences = 64>

// ONE-NOT: @batch
// ONE-NOT: sequences =

// NONE: error: sequences is 0, expected 1 to 64
// MANY: error: sequences is 65, expected 1 to 64
module {
  moe.weight @n : tensor<56xf32> = #moe.tensor<file = 0, offset = 0>
  moe.weight @m : tensor<72xf32> = #moe.tensor<file = 0, offset = 0>
  moe.weight @a : tensor<64x144xf32> = #moe.tensor<file = 0, offset = 0>
  moe.weight @b : tensor<80x144xf32> = #moe.tensor<file = 0, offset = 0>
  moe.weight @output.weight : tensor<100x64xf32> = #moe.tensor<file = 0, offset = 0>
  func.func @forward(%x: tensor<?x144xf32>) -> tensor<?x144xf32> {
    %n = moe.weight_ref @n : tensor<56xf32>
    %m = moe.weight_ref @m : tensor<72xf32>
    %a = moe.weight_ref @a : tensor<64x144xf32>
    %b = moe.weight_ref @b : tensor<80x144xf32>
    %u = moe.linear %x, %a : (tensor<?x144xf32>, tensor<64x144xf32>) -> tensor<?x64xf32>
    %v = moe.linear %x, %b : (tensor<?x144xf32>, tensor<80x144xf32>) -> tensor<?x80xf32>
    %k = moe.mla_latent %u, %n {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 8, base = 1.0e4>} : (tensor<?x64xf32>, tensor<56xf32>) -> !moe.kv<64>
    %l = moe.mla_latent %v, %m {layer = 1, eps = 1.0e-6, rope = #moe.rope<dim = 8, base = 1.0e4>} : (tensor<?x80xf32>, tensor<72xf32>) -> !moe.kv<80>
    return %x : tensor<?x144xf32>
  }
  func.func @logits(%hidden: tensor<?x64xf32>) -> tensor<?x100xf32> {
    %head = moe.weight_ref @output.weight : tensor<100x64xf32>
    %y = moe.lm_head %hidden, %head : (tensor<?x64xf32>, tensor<100x64xf32>) -> tensor<?x100xf32>
    return %y : tensor<?x100xf32>
  }
}
