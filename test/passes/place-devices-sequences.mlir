// RUN: moe-opt %s -moe-place-devices 2>&1 | FileCheck %s

// The cache is for all sequences, but the work of a batch does not count for a
// single token: 4 * 256 * 256 FLOPs and some on 512 KiB.

#target = {name = "xeon", devices = [
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 67108864 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}

// 8192 rows of 40 elements of 2 bytes.
// CHECK: remark: cpu0: {{.*}} of 64.0 MiB: 552.1 KiB of weights, 640.0 KiB of KV cache for 8192 positions, {{.*}} of activations
// CHECK: moe.ffn {{.*}}moe.reason = "On cpu0: the target's only device; a token reads all of its 512.0 KiB (0.75 FLOPs per resident byte and token)."
module attributes {moe.target = #target, moe.kv_rows = 8192 : i64} {
moe.weight @blk.0.ffn_gate.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_down.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.a : tensor<40x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.n : tensor<32xf32> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 1024>} {
  %g0 = moe.weight_ref @blk.0.ffn_gate.weight : tensor<256x256xf32>
  %d0 = moe.weight_ref @blk.0.ffn_down.weight : tensor<256x256xf32>
  %a = moe.weight_ref @blk.0.a : tensor<40x256xf32>
  %n = moe.weight_ref @blk.0.n : tensor<32xf32>
  %u = moe.linear %x, %a {moe.label = #moe.label<"a", layer = 0>} : (tensor<?x256xf32>, tensor<40x256xf32>) -> tensor<?x40xf32>
  %kv = moe.mla_latent %u, %n {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 8, base = 1.0e4>, moe.label = #moe.label<"kv", layer = 0>} : (tensor<?x40xf32>, tensor<32xf32>) -> !moe.kv<40>
  %y0 = moe.ffn %x, %g0, %g0, %d0 {moe.label = #moe.label<"ffn", layer = 0>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  return %y0 : tensor<?x256xf32>
}
func.func @batch(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"batch", min_tokens = 2, max_tokens = 8, context = 1024, sequences = 8>} {
  %g0 = moe.weight_ref @blk.0.ffn_gate.weight : tensor<256x256xf32>
  %d0 = moe.weight_ref @blk.0.ffn_down.weight : tensor<256x256xf32>
  %a = moe.weight_ref @blk.0.a : tensor<40x256xf32>
  %n = moe.weight_ref @blk.0.n : tensor<32xf32>
  %u = moe.linear %x, %a {moe.label = #moe.label<"a", layer = 0>} : (tensor<?x256xf32>, tensor<40x256xf32>) -> tensor<?x40xf32>
  %kv = moe.mla_latent %u, %n {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 8, base = 1.0e4>, moe.label = #moe.label<"kv", layer = 0>} : (tensor<?x40xf32>, tensor<32xf32>) -> !moe.kv<40>
  %y0 = moe.ffn %x, %g0, %g0, %d0 {moe.label = #moe.label<"ffn", layer = 0>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  return %y0 : tensor<?x256xf32>
}
}
