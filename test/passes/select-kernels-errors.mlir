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
