// RUN: moe-opt %s -split-input-file -verify-diagnostics -moe-insert-transfers

#hybrid = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 1000 : i64, read_bps = 9.3e11 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000 : i64, read_bps = 2.2e11 : f64}]}

module attributes {moe.target = #hybrid} {
moe.weight @blk.0.attn_kv_a_norm.weight : tensor<32xf32> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%q: tensor<?x80xf32>, %a: tensor<?x40xf32>) -> tensor<?x64xf32> {
  %norm = moe.weight_ref @blk.0.attn_kv_a_norm.weight : tensor<32xf32>
  %kv = moe.mla_latent %a, %norm {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 8, base = 1.0e4>, moe.device = "cpu0"} : (tensor<?x40xf32>, tensor<32xf32>) -> !moe.kv<40>
  // expected-error @+1 {{blk.0.attn is on "gpu0" but its cache is on "cpu0"; an attention stays with the op that appends to its cache}}
  %o = moe.latent_attention %q, %kv {heads = 2, latent = 32, rope = 8, scale = 0.25, moe.device = "gpu0", moe.label = #moe.label<"attn", layer = 0>} : (tensor<?x80xf32>, !moe.kv<40>) -> tensor<?x64xf32>
  return %o : tensor<?x64xf32>
}
}

// -----

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000 : i64, read_bps = 2.2e11 : f64}]}
module attributes {moe.target = #xeon} {
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  // expected-error @+1 {{blk.0.add has no moe.device; run moe-place-devices first}}
  %y = moe.add %x, %x {moe.label = #moe.label<"add", layer = 0>} : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
}
