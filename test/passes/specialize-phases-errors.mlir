// RUN: not moe-opt %s -split-input-file -moe-specialize-phases="ubatch=-1" 2>&1 | FileCheck %s --check-prefix=UBATCH
// RUN: not moe-opt %s -split-input-file -moe-specialize-phases="ctx=-4" 2>&1 | FileCheck %s --check-prefix=CONTEXT
// RUN: not moe-opt %s -split-input-file -moe-specialize-phases="decode-tokens=0" 2>&1 | FileCheck %s --check-prefix=DECODE
// RUN: moe-opt %s -split-input-file -verify-diagnostics -moe-specialize-phases

// UBATCH: error: ubatch is -1, expected 1 to 2147483647
// CONTEXT: error: context is -4, expected 1 to 2147483647
// DECODE: error: decode-tokens is 0, expected 1 to 2147483647

// expected-error @+1 {{expected a function @forward of the model graph}}
module {
  func.func @logits(%hidden: tensor<?x64xf32>) -> tensor<?x64xf32> {
    return %hidden : tensor<?x64xf32>
  }
}

// -----

// expected-error @+1 {{expected a function @logits of the model graph}}
module {
  func.func @forward(%tokens: tensor<?x64xf32>) -> tensor<?x64xf32> {
    return %tokens : tensor<?x64xf32>
  }
}
