// RUN: moe-opt %s -moe-choose-kv-types | FileCheck %s

// Attention that reads no weights: what made keys and values says what eight bits
// would lose, norms and RoPE aside.

#target = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000000000 : i64, reserved_bytes = 0 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e12 : f64, float_ops = 1.0e12 : f64}]}
module attributes {moe.target = #target} {
  // CHECK: moe.kv_store {{.*}}layer = 0{{.*}} -> !moe.kv<128, q8_0>
  // CHECK: moe.kv_store {{.*}}layer = 1{{.*}} -> !moe.kv<128, f16>
  func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x32xf32> {
    %wq = moe.weight <"wq", file = 0, offset = 0> : tensor<16x64x!moe.q8_0>
    %wb = moe.weight <"wb", file = 0, offset = 0> : tensor<16x64xbf16>
    %n = moe.weight <"n", file = 0, offset = 0> : tensor<16xf32>
    %s = moe.weight <"s", file = 0, offset = 0> : tensor<2xf32>
    %q = moe.linear %x, %wq : (tensor<?x64xf32>, tensor<16x64x!moe.q8_0>) -> tensor<?x16xf32>
    %b0 = moe.linear %x, %wb : (tensor<?x64xf32>, tensor<16x64xbf16>) -> tensor<?x16xf32>
    %b1 = moe.rms_norm %b0, %n {eps = 1.0e-6} : tensor<?x16xf32>, tensor<16xf32>
    %b = moe.rope %b1 {heads = 1, offset = 0, rope = #moe.rope<dim = 4, base = 1.0e4>} : tensor<?x16xf32>
    %wh = moe.weight <"wh", file = 0, offset = 0> : tensor<32x64xbf16>
    %h = moe.linear %x, %wh : (tensor<?x64xf32>, tensor<32x64xbf16>) -> tensor<?x32xf32>
    %kv0 = moe.kv_store %q, %q {layer = 0, kv_heads = 1, moe.label = #moe.label<"kv", layer = 0>} : (tensor<?x16xf32>, tensor<?x16xf32>) -> !moe.kv<128>
    %a0 = moe.gqa_attention %h, %kv0 sinks %s {heads = 2, kv_heads = 1, key = 16, value = 16, scale = 0.25} : (tensor<?x32xf32>, !moe.kv<128>, tensor<2xf32>) -> tensor<?x32xf32>
    %kv1 = moe.kv_store %b, %q {layer = 1, kv_heads = 1, moe.label = #moe.label<"kv", layer = 1>} : (tensor<?x16xf32>, tensor<?x16xf32>) -> !moe.kv<128>
    %a1 = moe.gqa_attention %h, %kv1 {heads = 2, kv_heads = 1, key = 16, value = 16, scale = 0.25} : (tensor<?x32xf32>, !moe.kv<128>) -> tensor<?x32xf32>
    %s0 = moe.add %a0, %a1 : tensor<?x32xf32>
    return %s0 : tensor<?x32xf32>
  }
}
