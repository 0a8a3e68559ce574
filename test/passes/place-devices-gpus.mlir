// RUN: moe-opt %s -moe-place-devices | FileCheck %s
// RUN: sed 's/2306867/8388608/' %s | moe-opt -moe-place-devices | FileCheck %s --check-prefix=ONE --implicit-check-not='moe.device = "gpu1"'
// A model that fits one GPU uses only that one.
// ONE: moe.device = "gpu0"

// Two GPUs get consecutive layers in proportion to their memory (here two
// thirds and one third); the head follows the last layer.

#target = {name = "2x4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 2306867 : i64, read_bps = 9.3e11 : f64, int8_ops = 3.0e14 : f64, float_ops = 1.5e14 : f64, link_bps = 2.5e10 : f64, link_latency = 8.0e-6 : f64},
  {name = "gpu1", kind = "cuda", isa = "cuda", memory_bytes = 1258291 : i64, read_bps = 9.3e11 : f64, int8_ops = 3.0e14 : f64, float_ops = 1.5e14 : f64, link_bps = 2.5e10 : f64, link_latency = 8.0e-6 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 67108864 : i64, read_bps = 2.2e9 : f64, int8_ops = 7.4e10 : f64, float_ops = 2.2e10 : f64}]}

module attributes {moe.target = #target} {
moe.weight @blk.0.ffn_gate.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_down.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.1.ffn_gate.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.1.ffn_down.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.2.ffn_gate.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.2.ffn_down.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.3.ffn_gate.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.3.ffn_down.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.4.ffn_gate.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.4.ffn_down.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.5.ffn_gate.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.5.ffn_down.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @output.weight : tensor<64x256xf32> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 1024>} {
  %g0 = moe.weight_ref @blk.0.ffn_gate.weight : tensor<256x256xf32>
  %d0 = moe.weight_ref @blk.0.ffn_down.weight : tensor<256x256xf32>
  %g1 = moe.weight_ref @blk.1.ffn_gate.weight : tensor<256x256xf32>
  %d1 = moe.weight_ref @blk.1.ffn_down.weight : tensor<256x256xf32>
  %g2 = moe.weight_ref @blk.2.ffn_gate.weight : tensor<256x256xf32>
  %d2 = moe.weight_ref @blk.2.ffn_down.weight : tensor<256x256xf32>
  %g3 = moe.weight_ref @blk.3.ffn_gate.weight : tensor<256x256xf32>
  %d3 = moe.weight_ref @blk.3.ffn_down.weight : tensor<256x256xf32>
  %g4 = moe.weight_ref @blk.4.ffn_gate.weight : tensor<256x256xf32>
  %d4 = moe.weight_ref @blk.4.ffn_down.weight : tensor<256x256xf32>
  %g5 = moe.weight_ref @blk.5.ffn_gate.weight : tensor<256x256xf32>
  %d5 = moe.weight_ref @blk.5.ffn_down.weight : tensor<256x256xf32>
  %w = moe.weight_ref @output.weight : tensor<64x256xf32>
  // CHECK: moe.ffn {{.*}}moe.device = "gpu0", moe.label = #moe.label<"ffn", layer = 0>
  %y0 = moe.ffn %x, %g0, %g0, %d0 {moe.label = #moe.label<"ffn", layer = 0>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  // CHECK: moe.ffn {{.*}}moe.device = "gpu0", moe.label = #moe.label<"ffn", layer = 1>
  %y1 = moe.ffn %y0, %g1, %g1, %d1 {moe.label = #moe.label<"ffn", layer = 1>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  // CHECK: moe.ffn {{.*}}moe.device = "gpu0", moe.label = #moe.label<"ffn", layer = 2>
  %y2 = moe.ffn %y1, %g2, %g2, %d2 {moe.label = #moe.label<"ffn", layer = 2>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  // CHECK: moe.ffn {{.*}}moe.device = "gpu0", moe.label = #moe.label<"ffn", layer = 3>
  %y3 = moe.ffn %y2, %g3, %g3, %d3 {moe.label = #moe.label<"ffn", layer = 3>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  // CHECK: moe.ffn {{.*}}moe.device = "gpu1", moe.label = #moe.label<"ffn", layer = 4>
  %y4 = moe.ffn %y3, %g4, %g4, %d4 {moe.label = #moe.label<"ffn", layer = 4>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  // CHECK: moe.ffn {{.*}}moe.device = "gpu1", moe.label = #moe.label<"ffn", layer = 5>
  %y5 = moe.ffn %y4, %g5, %g5, %d5 {moe.label = #moe.label<"ffn", layer = 5>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  // CHECK: moe.lm_head {{.*}}moe.device = "gpu1"
  %z = moe.lm_head %y5, %w {moe.label = #moe.label<"output">} : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  return %y5 : tensor<?x256xf32>
}
}
