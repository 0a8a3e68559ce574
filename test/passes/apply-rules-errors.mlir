// Each mistake in a rule is reported with a correction.
// RUN: not moe-opt %s -moe-apply-rules='place=blk.*.ffn' 2>&1 | FileCheck %s --check-prefix=NODEVICE
// NODEVICE: error: rule "blk.*.ffn" names no device
// NODEVICE: note: write it as in "blk.*.ffn_experts=cpu0" or "prefill:blk.*=cpu0"
// RUN: not moe-opt %s -moe-apply-rules='place=:blk.0.ffn=cpu0' 2>&1 | FileCheck %s --check-prefix=COLON
// COLON: error: rule ":blk.0.ffn=cpu0" has nothing before its colon
// RUN: not moe-opt %s -moe-apply-rules='place=decode:=cpu0' 2>&1 | FileCheck %s --check-prefix=NOOP
// NOOP: error: rule "decode:=cpu0" names no op
// RUN: not moe-opt %s -moe-apply-rules='place=blk.*.ffn=cpu2' 2>&1 | FileCheck %s --check-prefix=DEVICE
// DEVICE: error: rule "blk.*.ffn=cpu2" is for device cpu2, which two does not have, did you mean "cpu0"?
// DEVICE: note: its devices are cpu0, cpu1
// RUN: not moe-opt %s -moe-apply-rules='place=decod:blk.*.ffn=cpu1' 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: rule "decod:blk.*.ffn=cpu1" is for phase decod, which this plan does not have, did you mean "decode"?
// UNKNOWN: note: its phases are decode, prefill
// RUN: not moe-opt %s -moe-apply-rules='place=blk.0.\=cpu1' 2>&1 | FileCheck %s --check-prefix=BROKEN
// BROKEN: error: rule "blk.0.{{.}}=cpu1" has a broken pattern ({{.*}})
// BROKEN: note: patterns are as in a shell

// A rule that matches nothing gets the closest pattern or name.
// RUN: not moe-opt %s -moe-apply-rules='place=blk.*.fnn=cpu1' 2>&1 | FileCheck %s --check-prefix=NEAR
// NEAR: error: rule "blk.*.fnn=cpu1" matches no op, did you mean "blk.*.ffn"?
// NEAR: note: moec explain lists the names of ops
// RUN: not moe-opt %s -moe-apply-rules='place=blk.0.fn=cpu1' 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: error: rule "blk.0.fn=cpu1" matches no op, did you mean "blk.0.ffn"?
// RUN: not moe-opt %s -moe-apply-rules='place=blk.0.ffn=cpu1,decode:headd=cpu1' 2>&1 | FileCheck %s --check-prefix=SECOND
// SECOND: error: rule "decode:headd=cpu1" matches no op, did you mean "head"?
// RUN: not moe-opt %s -moe-apply-rules='place=something.else=cpu1' 2>&1 | FileCheck %s --check-prefix=FAR
// FAR: error: rule "something.else=cpu1" matches no op{{$}}
// RUN: not moe-opt %s -moe-apply-rules='place=prefill:head=cpu1' 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: error: rule "prefill:head=cpu1" matches no op of phase prefill, though some of phase decode

// A cache cannot be elsewhere in one phase.
// RUN: not moe-opt %s -moe-apply-rules='place=prefill:blk.0.attn_kv=cpu1' 2>&1 | FileCheck %s --check-prefix=CACHE
// CACHE: error: rule "prefill:blk.0.attn_kv=cpu1" matches only ops that use the KV cache, which all phases share
// CACHE: note: leave out "prefill:" to move them in all phases

#target = {name = "two", devices = [
  {name = "cpu1", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 67108864 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 67108864 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}

module attributes {moe.target = #target} {
moe.weight @blk.0.ffn_gate.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @output.weight : tensor<64x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.a : tensor<40x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.n : tensor<32xf32> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%x: tensor<?x256xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 1024>} {
  %g0 = moe.weight_ref @blk.0.ffn_gate.weight : tensor<256x256xf32>
  %w = moe.weight_ref @output.weight : tensor<64x256xf32>
  %y0 = moe.ffn %x, %g0, %g0, %g0 {moe.label = #moe.label<"ffn", layer = 0>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  %z = moe.lm_head %y0, %w {moe.label = #moe.label<"head">} : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  return %z : tensor<?x64xf32>
}
func.func @prefill(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"prefill", min_tokens = 2, max_tokens = 16, context = 1024>} {
  %g0 = moe.weight_ref @blk.0.ffn_gate.weight : tensor<256x256xf32>
  %a = moe.weight_ref @blk.0.a : tensor<40x256xf32>
  %n = moe.weight_ref @blk.0.n : tensor<32xf32>
  %u = moe.linear %x, %a {moe.label = #moe.label<"a", layer = 0>} : (tensor<?x256xf32>, tensor<40x256xf32>) -> tensor<?x40xf32>
  %kv = moe.mla_latent %u, %n {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 8, base = 1.0e4>, moe.label = #moe.label<"attn_kv", layer = 0>} : (tensor<?x40xf32>, tensor<32xf32>) -> !moe.kv<40>
  %y0 = moe.ffn %x, %g0, %g0, %g0 {moe.label = #moe.label<"ffn", layer = 0>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  return %y0 : tensor<?x256xf32>
}
}
