// RUN: moe-opt %s -moe-specialize-phases="ctx=4096 sequences=8" -moe-size-caches | FileCheck %s
// RUN: moe-opt %s -moe-specialize-phases="ctx=100 sequences=64" -moe-size-caches | FileCheck %s --check-prefix=SHORT
// RUN: moe-opt %s -moe-specialize-phases="ctx=100" -moe-size-caches | FileCheck %s --check-prefix=ONE
// RUN: moe-opt %s -moe-specialize-phases="ctx=128" -moe-size-caches=kv-budget=59999 | FileCheck %s --check-prefix=BUDGET
// RUN: moe-opt %s -moe-specialize-phases="ctx=128 sequences=4" -moe-size-caches=kv-budget=36864 | FileCheck %s --check-prefix=LEAST
// RUN: sed 's/!moe.kv<64>/!moe.kv<64, q8_0>/' %s | moe-opt -moe-specialize-phases="ctx=128" -moe-size-caches=kv-budget=59999 | FileCheck %s --check-prefix=BYTES
// RUN: not moe-opt %s -moe-specialize-phases="ctx=128 sequences=4" -moe-size-caches=kv-budget=36863 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: not moe-opt %s -moe-size-caches=kv-budget=-1 2>&1 | FileCheck %s --check-prefix=NEGATIVE

// The cache has a context per sequence.
// CHECK: module attributes {moe.kv_rows = 32768 : i64}
// Contexts are whole pages of 64 rows.
// SHORT: moe.kv_rows = 8192 : i64
// ONE: moe.kv_rows = 128 : i64

// A page of both layers is 64 * (64 + 80) * 2 = 18432 bytes: the budget holds
// three, whatever the number of sequences.
// BUDGET: moe.kv_rows = 192 : i64
// LEAST: moe.kv_rows = 128 : i64
// One layer in 8-bit elements makes it 64 * (68 + 160) = 14592 bytes.
// BYTES: moe.kv_rows = 256 : i64

// SMALL: error: a KV cache of 36.0 KiB holds 64 tokens, less than a context of 128
// SMALL: note: give it at least 36KiB
// NEGATIVE: error: kv-budget is -1, expected at least 0
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
