// RUN: not moe-opt %s -moe-choose-kv-types=kv-type=q3_0 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not moe-opt %s -moe-choose-kv-types="kv-type=blk.0=b16,f16" 2>&1 | FileCheck %s --check-prefix=NEAR
// RUN: not moe-opt %s -moe-choose-kv-types="kv-type=blk.1-2=f16" 2>&1 | FileCheck %s --check-prefix=LAYER
// RUN: not moe-opt %s -moe-choose-kv-types="kv-type=f16,blk.0=f32,q8_0" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not moe-opt %s -moe-choose-kv-types="kv-type=blk.3-1=f16" 2>&1 | FileCheck %s --check-prefix=BACK
// RUN: not moe-opt %s -moe-choose-kv-types="kv-type=0=f16" 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not moe-opt %s -moe-choose-kv-types="kv-type=blk.-1=f16" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not moe-opt %s -moe-choose-kv-types="kv-type=f16," 2>&1 | FileCheck %s --check-prefix=EMPTY

// TYPE: error: kv-type "q3_0" has "q3_0", which is not a type of a KV cache, did you mean "q8_0"?
// TYPE: note: types are auto, f32, f16, bf16, q8_0
// NEAR: error: kv-type "blk.0=b16,f16" has "b16", which is not a type of a KV cache, did you mean
// LAYER: error: kv-type "blk.1-2=f16" names no layer with a cache
// LAYER: note: the model has 1 of them, from blk.0
// TWICE: error: kv-type "f16,blk.0=f32,q8_0" has two types for all other layers, f16 and q8_0
// TWICE: note: write layers before one of them, as in "blk.0-3=f16,q8_0"
// BACK: error: kv-type "blk.3-1=f16" has "blk.3-1" for layers
// BACK: note: write them as in "blk.3=f16" or "blk.0-3=f16,q8_0"
// NUMBER: error: kv-type "0=f16" has "0" for layers
// NEGATIVE: error: kv-type "blk.-1=f16" has "blk.-1" for layers
// EMPTY: error: kv-type "f16," has "", which is not a type of a KV cache
#target = {name = "one", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000000000 : i64, reserved_bytes = 0 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e12 : f64, float_ops = 1.0e12 : f64}]}
module attributes {moe.target = #target} {
  moe.weight @wa : tensor<36x64xf32> = #moe.tensor<file = 0, offset = 0>
  moe.weight @wq : tensor<24x64xf32> = #moe.tensor<file = 0, offset = 0>
  moe.weight @n : tensor<32xf32> = #moe.tensor<file = 0, offset = 0>
  moe.weight @kq : tensor<2x8x32x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
  moe.weight @vq : tensor<2x6x32x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
  moe.weight @kb : tensor<2x8x32xbf16> = #moe.tensor<file = 0, offset = 0>
  moe.weight @vb : tensor<2x6x32xbf16> = #moe.tensor<file = 0, offset = 0>
  func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x12xf32> {
    %wa = moe.weight_ref @wa : tensor<36x64xf32>
    %wq = moe.weight_ref @wq : tensor<24x64xf32>
    %n = moe.weight_ref @n : tensor<32xf32>
    %kq = moe.weight_ref @kq : tensor<2x8x32x!moe.q8_0>
    %vq = moe.weight_ref @vq : tensor<2x6x32x!moe.q8_0>
    %kb = moe.weight_ref @kb : tensor<2x8x32xbf16>
    %vb = moe.weight_ref @vb : tensor<2x6x32xbf16>
    %a0 = moe.linear %x, %wa {moe.label = #moe.label<"attn_kv_a", layer = 0>} : (tensor<?x64xf32>, tensor<36x64xf32>) -> tensor<?x36xf32>
    %q0 = moe.linear %x, %wq {moe.label = #moe.label<"attn_q", layer = 0>} : (tensor<?x64xf32>, tensor<24x64xf32>) -> tensor<?x24xf32>
    %kv0 = moe.mla_latent %a0, %n {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 4, base = 1.0e4>, moe.label = #moe.label<"attn_latent", layer = 0>} : (tensor<?x36xf32>, tensor<32xf32>) -> !moe.kv<36>
    %o0 = moe.mla_attention %q0, %kv0, %kq, %vq {heads = 2, nope = 8, rope = 4, latent = 32, value = 6, scale = 0.5, moe.label = #moe.label<"attention", layer = 0>} : (tensor<?x24xf32>, !moe.kv<36>, tensor<2x8x32x!moe.q8_0>, tensor<2x6x32x!moe.q8_0>) -> tensor<?x12xf32>
    return %o0 : tensor<?x12xf32>
  }
}
