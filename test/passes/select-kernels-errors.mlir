// RUN: moe-opt %s -split-input-file -verify-diagnostics -moe-select-kernels

#hybrid = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 1000 : i64, read_bps = 9.3e11 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx2", memory_bytes = 1000 : i64, read_bps = 2.2e11 : f64}]}

// A format that nothing multiplies.
module attributes {moe.target = #hybrid} {
func.func @decode(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %w = moe.weight <"w", file = 0, offset = 0> : tensor<256x256xf32>
  // A copy is the GPU's work: no kernel of the host does it.
  // expected-error @+2 {{blk.0.copy: there is no kernel for copy on cpu0 (avx2) for 1 to 1 tokens}}
  // expected-note @+1 {{use a target without cpu0, or a model file in another format}}
  %t = moe.transfer %x from "gpu0" to "cpu0" {moe.device = "cpu0", moe.label = "blk.0.copy"} : tensor<?x256xf32>
  return %t : tensor<?x256xf32>
}
}

// -----

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx2", memory_bytes = 1000 : i64, read_bps = 2.2e11 : f64}]}
module attributes {moe.target = #xeon} {
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  // expected-error @+1 {{blk.0.add is on no device of the target; run moe-place-devices first}}
  %y = moe.add %x, %x {moe.device = "gpu7", moe.label = "blk.0.add"} : tensor<?x64xf32>
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
