// RUN: moe-opt %s -moe-place-devices 2>&1 | FileCheck %s

// With one device, everything is there, and the reason still states the cost.

#target = {name = "xeon", devices = [
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 67108864 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}

// CHECK: remark: cpu0: {{.*}} of 64.0 MiB: 576.0 KiB of weights, 0 B of KV cache for 1024 positions, {{.*}} of activations, {{.*}} of scratch and staging
// CHECK-NOT: copies between devices
// CHECK: moe.ffn {{.*}}moe.reason = "On cpu0: the target's only device; a token reads all of its 512.0 KiB (0.75 FLOPs per resident byte and token)."
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
