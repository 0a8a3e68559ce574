// RUN: moe-opt %s -moe-place-devices | FileCheck %s
// RUN: moe-opt %s -moe-place-devices 2>&1 | FileCheck %s --check-prefix=REMARK

// Three dense layers of 512 KiB and a head of 64 KiB, with VRAM for two layers
// and the head: one whole layer falls back to the host, the first one, because
// values then need two copies instead of three.

#target = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 1258291 : i64, read_bps = 9.3e11 : f64, int8_ops = 3.0e14 : f64, float_ops = 1.5e14 : f64, link_bps = 2.5e10 : f64, link_latency = 8.0e-6 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 67108864 : i64, read_bps = 2.2e9 : f64, int8_ops = 7.4e10 : f64, float_ops = 2.2e10 : f64}]}

// REMARK: remark: gpu0 has FFN of 2 of 3 layers, head
// REMARK: remark: 2 copies between devices
module attributes {moe.target = #target} {
moe.weight @blk.0.ffn_gate.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_down.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.1.ffn_gate.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.1.ffn_down.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.2.ffn_gate.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.2.ffn_down.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @output.weight : tensor<64x256xf32> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 1024>} {
  %g0 = moe.weight_ref @blk.0.ffn_gate.weight : tensor<256x256xf32>
  %d0 = moe.weight_ref @blk.0.ffn_down.weight : tensor<256x256xf32>
  %g1 = moe.weight_ref @blk.1.ffn_gate.weight : tensor<256x256xf32>
  %d1 = moe.weight_ref @blk.1.ffn_down.weight : tensor<256x256xf32>
  %g2 = moe.weight_ref @blk.2.ffn_gate.weight : tensor<256x256xf32>
  %d2 = moe.weight_ref @blk.2.ffn_down.weight : tensor<256x256xf32>
  %w = moe.weight_ref @output.weight : tensor<64x256xf32>
  // CHECK: moe.ffn {{.*}}moe.device = "cpu0", moe.label = #moe.label<"ffn", layer = 0>, moe.reason = "On cpu0: a token reads all of its 512.0 KiB {{.*}} here instead of {{.*}} on gpu0; with the FFN of the layer on gpu0 a request would take {{.*}} % less, but 512.0 KiB are needed and {{.*}} KiB left there."
  %y0 = moe.ffn %x, %g0, %g0, %d0 {moe.label = #moe.label<"ffn", layer = 0>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  // CHECK: moe.ffn {{.*}}moe.device = "gpu0", moe.label = #moe.label<"ffn", layer = 1>
  %y1 = moe.ffn %y0, %g1, %g1, %d1 {moe.label = #moe.label<"ffn", layer = 1>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  // CHECK: moe.ffn {{.*}}moe.device = "gpu0", moe.label = #moe.label<"ffn", layer = 2>
  %y2 = moe.ffn %y1, %g2, %g2, %d2 {moe.label = #moe.label<"ffn", layer = 2>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  // CHECK: moe.lm_head {{.*}}moe.device = "gpu0"
  %z = moe.lm_head %y2, %w {moe.label = #moe.label<"output">} : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  return %y2 : tensor<?x256xf32>
}
}
