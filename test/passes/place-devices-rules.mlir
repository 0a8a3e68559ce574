// Memory of ops that rules placed is counted on their device, in one phase or
// in all, and an overfull device is named first.
// RUN: moe-opt %s -mlir-print-op-on-diagnostic=false -moe-apply-rules='place=blk.1.ffn=cpu1' -moe-place-devices 2>&1 | FileCheck %s
// RUN: moe-opt %s -mlir-print-op-on-diagnostic=false -moe-apply-rules='place=prefill:blk.1.ffn=cpu1' -moe-place-devices 2>&1 | FileCheck %s --check-prefix=PHASE
// RUN: not moe-opt %s -mlir-print-op-on-diagnostic=false -moe-apply-rules='place=blk.*=cpu1' -moe-place-devices 2>&1 | FileCheck %s --check-prefix=SHORT
// RUN: moe-opt %s -mlir-print-op-on-diagnostic=false -moe-apply-rules='place=blk.0.ffn=cpu0' -moe-place-devices 2>&1 | FileCheck %s --check-prefix=GPU
// RUN: moe-opt %s -mlir-print-op-on-diagnostic=false -moe-apply-rules='place=blk.1.ffn=gpu0' -moe-place-devices 2>&1 | FileCheck %s --check-prefix=VRAM

// 512 KiB of weights each; the first goes to the GPU, which has room for one.
// Every worker of either CPU has its own scratch.
// CHECK: remark: gpu0: {{.*}}: 512.0 KiB of weights
// CHECK: remark: cpu1: {{.*}}: 512.0 KiB of weights, 0 B of KV cache for 1024 positions, {{.*}} of activations, 268.0 KiB of scratch and staging
// CHECK: remark: cpu0: {{.*}}: 0 B of weights
// CHECK-LABEL: func.func @decode
// CHECK: moe.ffn {{.*}}moe.device = "gpu0", moe.label = #moe.label<"ffn", layer = 0>
// CHECK: moe.ffn {{.*}}moe.device = "cpu1", moe.label = #moe.label<"ffn", layer = 1>, moe.reason = "On cpu1: the rule 'blk.1.ffn=cpu1' asks for it."

// The weights are resident on both CPUs.
// PHASE: remark: cpu1: {{.*}}: 512.0 KiB of weights
// PHASE: remark: cpu0: {{.*}}: 512.0 KiB of weights
// PHASE-LABEL: func.func @decode
// PHASE: moe.ffn {{.*}}moe.device = "cpu0", moe.label = #moe.label<"ffn", layer = 1>
// PHASE-LABEL: func.func @prefill
// PHASE: moe.ffn {{.*}}moe.device = "cpu1", moe.label = #moe.label<"ffn", layer = 1>

// SHORT: error: the model does not fit three
// SHORT-NEXT: cpu1: {{.*}} of 1.0 MiB (1.0 MiB of weights,
// SHORT-NEXT: gpu0:
// SHORT-NEXT: cpu0:
// SHORT: note: place other ops on other devices, use a target with more memory

// Ops that a rule keeps out of VRAM leave room for others.
// GPU-LABEL: func.func @decode
// GPU: moe.ffn {{.*}}moe.device = "cpu0", moe.label = #moe.label<"ffn", layer = 0>
// GPU: moe.ffn {{.*}}moe.device = "gpu0", moe.label = #moe.label<"ffn", layer = 1>

// Ops that a rule puts into VRAM take room from others, which go elsewhere.
// VRAM-LABEL: func.func @decode
// VRAM: moe.ffn {{.*}}moe.device = "cpu0", moe.label = #moe.label<"ffn", layer = 0>
// VRAM: moe.ffn {{.*}}moe.device = "gpu0", moe.label = #moe.label<"ffn", layer = 1>

#target = {name = "three", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 655360 : i64, read_bps = 9.3e11 : f64, int8_ops = 3.0e14 : f64, float_ops = 1.5e14 : f64, link_bps = 2.5e10 : f64, link_latency = 8.0e-6 : f64},
  {name = "cpu1", kind = "cpu", isa = "avx512", cores = 2 : i64, memory_bytes = 1048576 : i64, read_bps = 2.2e9 : f64, int8_ops = 7.4e10 : f64, float_ops = 2.2e10 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 67108864 : i64, read_bps = 2.2e9 : f64, int8_ops = 7.4e10 : f64, float_ops = 2.2e10 : f64}]}

module attributes {moe.target = #target} {
moe.weight @blk.0.ffn_gate.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_down.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.1.ffn_gate.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.1.ffn_down.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 1024>} {
  %g0 = moe.weight_ref @blk.0.ffn_gate.weight : tensor<256x256xf32>
  %d0 = moe.weight_ref @blk.0.ffn_down.weight : tensor<256x256xf32>
  %g1 = moe.weight_ref @blk.1.ffn_gate.weight : tensor<256x256xf32>
  %d1 = moe.weight_ref @blk.1.ffn_down.weight : tensor<256x256xf32>
  %y0 = moe.ffn %x, %g0, %g0, %d0 {moe.label = #moe.label<"ffn", layer = 0>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  %y1 = moe.ffn %y0, %g1, %g1, %d1 {moe.label = #moe.label<"ffn", layer = 1>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  return %y1 : tensor<?x256xf32>
}
func.func @prefill(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"prefill", min_tokens = 2, max_tokens = 4, context = 1024>} {
  %g0 = moe.weight_ref @blk.0.ffn_gate.weight : tensor<256x256xf32>
  %d0 = moe.weight_ref @blk.0.ffn_down.weight : tensor<256x256xf32>
  %g1 = moe.weight_ref @blk.1.ffn_gate.weight : tensor<256x256xf32>
  %d1 = moe.weight_ref @blk.1.ffn_down.weight : tensor<256x256xf32>
  %y0 = moe.ffn %x, %g0, %g0, %d0 {moe.label = #moe.label<"ffn", layer = 0>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  %y1 = moe.ffn %y0, %g1, %g1, %d1 {moe.label = #moe.label<"ffn", layer = 1>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  return %y1 : tensor<?x256xf32>
}
}
