// RUN: moe-opt %s -moe-choose-kv-types 2>&1 | FileCheck %s
// RUN: moe-opt %s -moe-choose-kv-types=kv-type=bf16 | FileCheck %s --check-prefix=ALL
// RUN: moe-opt %s -moe-choose-kv-types="kv-type=blk.0-1=f32,q8_0" | FileCheck %s --check-prefix=SOME
// RUN: moe-opt %s -moe-choose-kv-types="kv-type=q8_0,blk.0-2=f32,blk.1=f16,blk.3=auto" | FileCheck %s --check-prefix=LAST

// Weights with few bits do not hide the loss of an 8-bit cache, so auto is f16
// on every device, for all weights, in every phase.
// CHECK-COUNT-4: remark: blk.{{[0-3]}}.attn_latent: KV cache in f16: q8_0 (--kv-type q8_0) takes about half the memory
// CHECK-LABEL: func.func @decode
// CHECK: moe.mla_latent {{.*}}moe.reason = "KV cache in f16: {{.*}} -> !moe.kv<36, f16>
// CHECK-NEXT: moe.mla_attention {{.*}}!moe.kv<36, f16>
// CHECK-COUNT-3: moe.mla_latent {{.*}} -> !moe.kv<36, f16>
// CHECK-LABEL: func.func @prefill
// CHECK-COUNT-4: moe.mla_latent {{.*}} -> !moe.kv<36, f16>

// ALL-COUNT-8: moe.mla_latent {{.*}}"KV cache in bf16 as requested."{{.*}} -> !moe.kv<36>{{$}}

// A type without layers applies to the other layers.
// SOME: moe.mla_latent {{.*}} -> !moe.kv<36, f32>
// SOME: moe.mla_latent {{.*}} -> !moe.kv<36, f32>
// SOME: moe.mla_latent {{.*}} -> !moe.kv<36, q8_0>
// SOME: moe.mla_latent {{.*}} -> !moe.kv<36, q8_0>

// The last of several entries for a layer decides.
// LAST: moe.mla_latent {{.*}} -> !moe.kv<36, f32>
// LAST: moe.mla_latent {{.*}} -> !moe.kv<36, f16>
// LAST: moe.mla_latent {{.*}} -> !moe.kv<36, f32>
// LAST: moe.mla_latent {{.*}}"KV cache in f16: {{.*}} -> !moe.kv<36, f16>

#target = {name = "both", devices = [{name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 1000000000 : i64, read_bps = 1.0e12 : f64, int8_ops = 1.0e14 : f64, float_ops = 1.0e13 : f64, link_bps = 2.5e10 : f64, link_latency = 8.0e-6 : f64}, {name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000000000 : i64, reserved_bytes = 0 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e12 : f64, float_ops = 1.0e12 : f64}]}
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
    %o0 = moe.mla_attention %q0, %kv0, %kq, %vq {heads = 2, nope = 8, rope = 4, latent = 32, value = 6, scale = 0.5, moe.label = #moe.label<"attention", layer = 0>, moe.device = "gpu0"} : (tensor<?x24xf32>, !moe.kv<36>, tensor<2x8x32x!moe.q8_0>, tensor<2x6x32x!moe.q8_0>) -> tensor<?x12xf32>
    %a1 = moe.linear %x, %wa {moe.label = #moe.label<"attn_kv_a", layer = 1>} : (tensor<?x64xf32>, tensor<36x64xf32>) -> tensor<?x36xf32>
    %q1 = moe.linear %x, %wq {moe.label = #moe.label<"attn_q", layer = 1>} : (tensor<?x64xf32>, tensor<24x64xf32>) -> tensor<?x24xf32>
    %kv1 = moe.mla_latent %a1, %n {layer = 1, eps = 1.0e-6, rope = #moe.rope<dim = 4, base = 1.0e4>, moe.label = #moe.label<"attn_latent", layer = 1>} : (tensor<?x36xf32>, tensor<32xf32>) -> !moe.kv<36>
    %o1 = moe.mla_attention %q1, %kv1, %kq, %vq {heads = 2, nope = 8, rope = 4, latent = 32, value = 6, scale = 0.5, moe.label = #moe.label<"attention", layer = 1>, moe.device = "cpu0"} : (tensor<?x24xf32>, !moe.kv<36>, tensor<2x8x32x!moe.q8_0>, tensor<2x6x32x!moe.q8_0>) -> tensor<?x12xf32>
    %a2 = moe.linear %x, %wa {moe.label = #moe.label<"attn_kv_a", layer = 2>} : (tensor<?x64xf32>, tensor<36x64xf32>) -> tensor<?x36xf32>
    %q2 = moe.linear %x, %wq {moe.label = #moe.label<"attn_q", layer = 2>} : (tensor<?x64xf32>, tensor<24x64xf32>) -> tensor<?x24xf32>
    %kv2 = moe.mla_latent %a2, %n {layer = 2, eps = 1.0e-6, rope = #moe.rope<dim = 4, base = 1.0e4>, moe.label = #moe.label<"attn_latent", layer = 2>} : (tensor<?x36xf32>, tensor<32xf32>) -> !moe.kv<36>
    %o2 = moe.mla_attention %q2, %kv2, %kb, %vb {heads = 2, nope = 8, rope = 4, latent = 32, value = 6, scale = 0.5, moe.label = #moe.label<"attention", layer = 2>, moe.device = "cpu0"} : (tensor<?x24xf32>, !moe.kv<36>, tensor<2x8x32xbf16>, tensor<2x6x32xbf16>) -> tensor<?x12xf32>
    %a3 = moe.linear %x, %wa {moe.label = #moe.label<"attn_kv_a", layer = 3>} : (tensor<?x64xf32>, tensor<36x64xf32>) -> tensor<?x36xf32>
    %q3 = moe.linear %x, %wq {moe.label = #moe.label<"attn_q", layer = 3>} : (tensor<?x64xf32>, tensor<24x64xf32>) -> tensor<?x24xf32>
    %kv3 = moe.mla_latent %a3, %n {layer = 3, eps = 1.0e-6, rope = #moe.rope<dim = 4, base = 1.0e4>, moe.label = #moe.label<"attn_latent", layer = 3>} : (tensor<?x36xf32>, tensor<32xf32>) -> !moe.kv<36>
    %o3 = moe.mla_attention %q3, %kv3, %kq, %vq {heads = 2, nope = 8, rope = 4, latent = 32, value = 6, scale = 0.5, moe.label = #moe.label<"attention", layer = 3>} : (tensor<?x24xf32>, !moe.kv<36>, tensor<2x8x32x!moe.q8_0>, tensor<2x6x32x!moe.q8_0>) -> tensor<?x12xf32>
    return %o3 : tensor<?x12xf32>
  }
  func.func @prefill(%x: tensor<?x64xf32>) -> tensor<?x12xf32> {
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
    %o0 = moe.mla_attention %q0, %kv0, %kq, %vq {heads = 2, nope = 8, rope = 4, latent = 32, value = 6, scale = 0.5, moe.label = #moe.label<"attention", layer = 0>, moe.device = "gpu0"} : (tensor<?x24xf32>, !moe.kv<36>, tensor<2x8x32x!moe.q8_0>, tensor<2x6x32x!moe.q8_0>) -> tensor<?x12xf32>
    %a1 = moe.linear %x, %wa {moe.label = #moe.label<"attn_kv_a", layer = 1>} : (tensor<?x64xf32>, tensor<36x64xf32>) -> tensor<?x36xf32>
    %q1 = moe.linear %x, %wq {moe.label = #moe.label<"attn_q", layer = 1>} : (tensor<?x64xf32>, tensor<24x64xf32>) -> tensor<?x24xf32>
    %kv1 = moe.mla_latent %a1, %n {layer = 1, eps = 1.0e-6, rope = #moe.rope<dim = 4, base = 1.0e4>, moe.label = #moe.label<"attn_latent", layer = 1>} : (tensor<?x36xf32>, tensor<32xf32>) -> !moe.kv<36>
    %o1 = moe.mla_attention %q1, %kv1, %kq, %vq {heads = 2, nope = 8, rope = 4, latent = 32, value = 6, scale = 0.5, moe.label = #moe.label<"attention", layer = 1>, moe.device = "cpu0"} : (tensor<?x24xf32>, !moe.kv<36>, tensor<2x8x32x!moe.q8_0>, tensor<2x6x32x!moe.q8_0>) -> tensor<?x12xf32>
    %a2 = moe.linear %x, %wa {moe.label = #moe.label<"attn_kv_a", layer = 2>} : (tensor<?x64xf32>, tensor<36x64xf32>) -> tensor<?x36xf32>
    %q2 = moe.linear %x, %wq {moe.label = #moe.label<"attn_q", layer = 2>} : (tensor<?x64xf32>, tensor<24x64xf32>) -> tensor<?x24xf32>
    %kv2 = moe.mla_latent %a2, %n {layer = 2, eps = 1.0e-6, rope = #moe.rope<dim = 4, base = 1.0e4>, moe.label = #moe.label<"attn_latent", layer = 2>} : (tensor<?x36xf32>, tensor<32xf32>) -> !moe.kv<36>
    %o2 = moe.mla_attention %q2, %kv2, %kb, %vb {heads = 2, nope = 8, rope = 4, latent = 32, value = 6, scale = 0.5, moe.label = #moe.label<"attention", layer = 2>, moe.device = "cpu0"} : (tensor<?x24xf32>, !moe.kv<36>, tensor<2x8x32xbf16>, tensor<2x6x32xbf16>) -> tensor<?x12xf32>
    %a3 = moe.linear %x, %wa {moe.label = #moe.label<"attn_kv_a", layer = 3>} : (tensor<?x64xf32>, tensor<36x64xf32>) -> tensor<?x36xf32>
    %q3 = moe.linear %x, %wq {moe.label = #moe.label<"attn_q", layer = 3>} : (tensor<?x64xf32>, tensor<24x64xf32>) -> tensor<?x24xf32>
    %kv3 = moe.mla_latent %a3, %n {layer = 3, eps = 1.0e-6, rope = #moe.rope<dim = 4, base = 1.0e4>, moe.label = #moe.label<"attn_latent", layer = 3>} : (tensor<?x36xf32>, tensor<32xf32>) -> !moe.kv<36>
    %o3 = moe.mla_attention %q3, %kv3, %kq, %vq {heads = 2, nope = 8, rope = 4, latent = 32, value = 6, scale = 0.5, moe.label = #moe.label<"attention", layer = 3>} : (tensor<?x24xf32>, !moe.kv<36>, tensor<2x8x32x!moe.q8_0>, tensor<2x6x32x!moe.q8_0>) -> tensor<?x12xf32>
    return %o3 : tensor<?x12xf32>
  }
}
