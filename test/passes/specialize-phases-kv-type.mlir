// RUN: moe-opt %s -split-input-file -verify-diagnostics -moe-specialize-phases=kv-type=auto | FileCheck %s

// Eight bits lose no more than the weights next to the cache did.
// CHECK: moe.kv_type = "q8_0"
// expected-remark @+1 {{KV cache in q8_0: CPU only, with attention weights of at most 8 bits}}
module {
  func.func @forward(%q: tensor<?x24xf32>, %a: tensor<?x36xf32>, %norm: tensor<32xf32>, %wk: tensor<2x8x32x!moe.q8_0>, %wv: tensor<2x6x32x!moe.q8_0>) -> tensor<?x12xf32> {
    %kv = moe.mla_latent %a, %norm {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 4, base = 1.0e4>} : (tensor<?x36xf32>, tensor<32xf32>) -> !moe.kv<36>
    %o = moe.mla_attention %q, %kv, %wk, %wv {heads = 2, nope = 8, rope = 4, latent = 32, value = 6, scale = 0.5} : (tensor<?x24xf32>, !moe.kv<36>, tensor<2x8x32x!moe.q8_0>, tensor<2x6x32x!moe.q8_0>) -> tensor<?x12xf32>
    return %o : tensor<?x12xf32>
  }
  func.func @logits(%hidden: tensor<?x64xf32>) -> tensor<?x64xf32> {
    return %hidden : tensor<?x64xf32>
  }
}

// -----

// CHECK: moe.kv_type = "f16"
// expected-remark @+1 {{KV cache in f16: a GPU, or attention weights of more than 8 bits}}
module {
  func.func @forward(%q: tensor<?x24xf32>, %a: tensor<?x36xf32>, %norm: tensor<32xf32>, %wk: tensor<2x8x32xbf16>, %wv: tensor<2x6x32xbf16>) -> tensor<?x12xf32> {
    %kv = moe.mla_latent %a, %norm {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 4, base = 1.0e4>} : (tensor<?x36xf32>, tensor<32xf32>) -> !moe.kv<36>
    %o = moe.mla_attention %q, %kv, %wk, %wv {heads = 2, nope = 8, rope = 4, latent = 32, value = 6, scale = 0.5} : (tensor<?x24xf32>, !moe.kv<36>, tensor<2x8x32xbf16>, tensor<2x6x32xbf16>) -> tensor<?x12xf32>
    return %o : tensor<?x12xf32>
  }
  func.func @logits(%hidden: tensor<?x64xf32>) -> tensor<?x64xf32> {
    return %hidden : tensor<?x64xf32>
  }
}
