// RUN: moe-opt %s -split-input-file -verify-diagnostics -moe-select-kernels

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx2", memory_bytes = 1000 : i64, read_bps = 2.2e11 : f64}]}
module attributes {moe.target = #xeon} {
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  // expected-error @+1 {{blk.0.add is on no device of the target; run moe-place-devices first}}
  %y = moe.add %x, %x {moe.device = "gpu7", moe.label = #moe.label<"add", layer = 0>} : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
}

// -----

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx2", memory_bytes = 1000 : i64, read_bps = 2.2e11 : f64}]}
module attributes {moe.target = #xeon} {
// expected-error @+1 {{@forward has no moe.phase; run moe-specialize-phases first}}
func.func @forward(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  return %x : tensor<?x64xf32>
}
}

// -----

// Only CPUs have a kernel for formats that only the reference kernel
// multiplies.
#hybrid = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 1000 : i64, read_bps = 9.3e11 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000 : i64, read_bps = 2.2e11 : f64}]}
module attributes {moe.target = #hybrid} {
moe.weight @w : tensor<64x256x!moe.tq2_0> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%x: tensor<?x256xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %w = moe.weight_ref @w : tensor<64x256x!moe.tq2_0>
  // expected-error @+2 {{blk.0.q: no kernel multiplies TQ2_0 weights on gpu0 (cuda) for 1 to 1 tokens}}
  // expected-note @+1 {{use a target without gpu0, or a model file in another format}}
  %y = moe.linear %x, %w {moe.device = "gpu0", moe.label = #moe.label<"q", layer = 0>} : (tensor<?x256xf32>, tensor<64x256x!moe.tq2_0>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
}
