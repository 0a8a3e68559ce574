// RUN: not moe-opt %s -split-input-file -moe-place-devices 2>&1 | FileCheck %s

#target = {name = "xeon", devices = [
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 409600 : i64, reserved_bytes = 102400 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}

// Weights that do not fit with any context.
// CHECK: error: the model does not fit xeon
// CHECK-NEXT: cpu0: {{.*}} of 300.0 KiB (576.0 KiB of weights, 0 B of KV cache for 1024 positions, {{.*}}; 100.0 KiB more are not to be used)
// CHECK: note: use a target with more memory, or a model file with fewer bits per weight
module attributes {moe.target = #target} {
moe.weight @blk.0.ffn_gate.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_down.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @output.weight : tensor<64x256xf32> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 1024>} {
  %g0 = moe.weight_ref @blk.0.ffn_gate.weight : tensor<256x256xf32>
  %d0 = moe.weight_ref @blk.0.ffn_down.weight : tensor<256x256xf32>
  %w = moe.weight_ref @output.weight : tensor<64x256xf32>
  %y0 = moe.ffn %x, %g0, %g0, %d0 {moe.label = #moe.label<"ffn", layer = 0>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  %z = moe.lm_head %y0, %w {moe.label = #moe.label<"output">} : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  return %y0 : tensor<?x256xf32>
}
}

// -----

#target = {name = "xeon", devices = [
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 1048576 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}

// A cache that is too long.
// CHECK: error: the model does not fit xeon
// CHECK-NEXT: cpu0: {{.*}} of 1.0 MiB ({{.*}} of weights, 1.2 MiB of KV cache for 8192 positions, {{[^;]*}})
module attributes {moe.target = #target} {
moe.weight @blk.0.attn_kv_a_norm.weight : tensor<64xf32> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%a: tensor<?x80xf32>) -> !moe.kv<80> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 8192>} {
  %norm = moe.weight_ref @blk.0.attn_kv_a_norm.weight : tensor<64xf32>
  %kv = moe.mla_latent %a, %norm {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 16, base = 1.0e4>} : (tensor<?x80xf32>, tensor<64xf32>) -> !moe.kv<80>
  return %kv : !moe.kv<80>
}
}

// -----

#target = {name = "xeon", devices = [
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 1048576 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}

// CHECK: error: @forward has no moe.phase; run moe-specialize-phases first
module attributes {moe.target = #target} {
func.func @forward(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  return %x : tensor<?x64xf32>
}
}
