// RUN: moe-opt %s -moe-apply-rules='place=blk.*.ffn=cpu1,decode:blk.1.*=cpu0' | FileCheck %s
// RUN: moe-opt %s -moe-apply-rules='place=blk.0.attn=cpu1' | FileCheck %s --check-prefix=CACHE
// RUN: moe-opt %s -moe-apply-rules='place=prefill:blk.0.*=cpu1' | FileCheck %s --check-prefix=PHASE
// RUN: moe-opt %s -moe-apply-rules='place=*=cpu0,blk.0.attn_kv=cpu1,decode:blk.0.a*=cpu0' | FileCheck %s --check-prefix=LAST
// RUN: moe-opt %s -moe-apply-rules='place=blk.0.*=cpu1' -moe-place-devices -moe-insert-transfers | FileCheck %s --check-prefix=THEN

// The last rule that matches an op in its phase decides; other ops are left to
// moe-place-devices.
// CHECK-LABEL: func.func @decode
// CHECK: moe.linear
// CHECK-NOT: moe.device
// CHECK: moe.label = #moe.label<"a", layer = 0>
// CHECK: moe.ffn {{.*}}moe.device = "cpu1", moe.label = #moe.label<"ffn", layer = 0>, moe.reason = "On cpu1: the rule 'blk.*.ffn=cpu1' asks for it."
// CHECK: moe.ffn {{.*}}moe.device = "cpu0", moe.label = #moe.label<"ffn", layer = 1>, moe.reason = "On cpu0: the rule 'decode:blk.1.*=cpu0' asks for it."
// CHECK-LABEL: func.func @prefill
// CHECK: moe.ffn {{.*}}moe.device = "cpu1", moe.label = #moe.label<"ffn", layer = 0>
// CHECK: moe.ffn {{.*}}moe.device = "cpu1", moe.label = #moe.label<"ffn", layer = 1>

// A layer's cache and the ops that use it are on one device in all phases: a
// rule for an attention also moves the op that appends to its cache, and
// nothing else.
// CACHE-LABEL: func.func @decode
// CACHE: moe.linear
// CACHE-NOT: moe.device
// CACHE: moe.mla_latent {{.*}}moe.device = "cpu1", moe.label = #moe.label<"attn_kv", layer = 0>, moe.reason = "On cpu1: the rule 'blk.0.attn=cpu1' asks for it, with its layer's cache."
// CACHE: moe.latent_attention {{.*}}moe.device = "cpu1"
// CACHE-NOT: moe.device
// CACHE-LABEL: func.func @prefill
// CACHE: moe.mla_latent {{.*}}moe.device = "cpu1"
// CACHE: moe.latent_attention {{.*}}moe.device = "cpu1"

// A rule for one phase does not move the cache.
// PHASE-LABEL: func.func @decode
// PHASE-NOT: moe.device
// PHASE-LABEL: func.func @prefill
// PHASE: moe.linear {{.*}}moe.device = "cpu1", moe.label = #moe.label<"a", layer = 0>
// PHASE: moe.mla_latent
// PHASE-NOT: moe.device
// PHASE: moe.reason = "It stays with its layer's cache, which all phases share: the rule 'prefill:blk.0.*=cpu1' does not move it."
// PHASE: moe.latent_attention
// PHASE-NOT: moe.device
// PHASE: moe.ffn {{.*}}moe.device = "cpu1", moe.label = #moe.label<"ffn", layer = 0>

// Among rules for all phases, the last one decides too.
// LAST-LABEL: func.func @decode
// LAST: moe.linear {{.*}}moe.device = "cpu0", moe.label = #moe.label<"a", layer = 0>
// LAST: moe.mla_latent {{.*}}moe.device = "cpu1"
// LAST: moe.latent_attention {{.*}}moe.device = "cpu1"
// LAST: moe.ffn {{.*}}moe.device = "cpu0", moe.label = #moe.label<"ffn", layer = 1>
// LAST-LABEL: func.func @prefill
// LAST: moe.linear {{.*}}moe.device = "cpu0", moe.label = #moe.label<"a", layer = 0>

// Other ops go to the host, the target's last CPU. The CPU that is not the host
// performs the copies.
// THEN-LABEL: func.func @decode
// THEN: moe.transfer %{{.*}} from "cpu0" to "cpu1" {moe.device = "cpu1"
// THEN: moe.transfer %{{.*}} from "cpu1" to "cpu0" {moe.device = "cpu1"
// THEN: moe.ffn {{.*}}moe.device = "cpu0", moe.label = #moe.label<"ffn", layer = 1>, moe.reason = "On cpu0: the host, because no rule places it elsewhere; a token reads all of its 512.0 KiB

#target = {name = "two", devices = [
  {name = "cpu1", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 67108864 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 67108864 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}

module attributes {moe.target = #target} {
moe.weight @blk.0.ffn_gate.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_down.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.1.ffn_gate.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.1.ffn_down.weight : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.a : tensor<40x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.n : tensor<32xf32> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 1024>} {
  %g0 = moe.weight_ref @blk.0.ffn_gate.weight : tensor<256x256xf32>
  %d0 = moe.weight_ref @blk.0.ffn_down.weight : tensor<256x256xf32>
  %g1 = moe.weight_ref @blk.1.ffn_gate.weight : tensor<256x256xf32>
  %d1 = moe.weight_ref @blk.1.ffn_down.weight : tensor<256x256xf32>
  %a = moe.weight_ref @blk.0.a : tensor<40x256xf32>
  %n = moe.weight_ref @blk.0.n : tensor<32xf32>
  %u = moe.linear %x, %a {moe.label = #moe.label<"a", layer = 0>} : (tensor<?x256xf32>, tensor<40x256xf32>) -> tensor<?x40xf32>
  %kv = moe.mla_latent %u, %n {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 8, base = 1.0e4>, moe.label = #moe.label<"attn_kv", layer = 0>} : (tensor<?x40xf32>, tensor<32xf32>) -> !moe.kv<40>
  %o = moe.latent_attention %u, %kv {heads = 1, latent = 32, rope = 8, scale = 0.25, moe.label = #moe.label<"attn", layer = 0>} : (tensor<?x40xf32>, !moe.kv<40>) -> tensor<?x32xf32>
  %y0 = moe.ffn %x, %g0, %g0, %d0 {moe.label = #moe.label<"ffn", layer = 0>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  %y1 = moe.ffn %y0, %g1, %g1, %d1 {moe.label = #moe.label<"ffn", layer = 1>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  return %y1 : tensor<?x256xf32>
}
func.func @prefill(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"prefill", min_tokens = 2, max_tokens = 16, context = 1024>} {
  %g0 = moe.weight_ref @blk.0.ffn_gate.weight : tensor<256x256xf32>
  %d0 = moe.weight_ref @blk.0.ffn_down.weight : tensor<256x256xf32>
  %g1 = moe.weight_ref @blk.1.ffn_gate.weight : tensor<256x256xf32>
  %d1 = moe.weight_ref @blk.1.ffn_down.weight : tensor<256x256xf32>
  %a = moe.weight_ref @blk.0.a : tensor<40x256xf32>
  %n = moe.weight_ref @blk.0.n : tensor<32xf32>
  %u = moe.linear %x, %a {moe.label = #moe.label<"a", layer = 0>} : (tensor<?x256xf32>, tensor<40x256xf32>) -> tensor<?x40xf32>
  %kv = moe.mla_latent %u, %n {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 8, base = 1.0e4>, moe.label = #moe.label<"attn_kv", layer = 0>} : (tensor<?x40xf32>, tensor<32xf32>) -> !moe.kv<40>
  %o = moe.latent_attention %u, %kv {heads = 1, latent = 32, rope = 8, scale = 0.25, moe.label = #moe.label<"attn", layer = 0>} : (tensor<?x40xf32>, !moe.kv<40>) -> tensor<?x32xf32>
  %y0 = moe.ffn %x, %g0, %g0, %d0 {moe.label = #moe.label<"ffn", layer = 0>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  %y1 = moe.ffn %y0, %g1, %g1, %d1 {moe.label = #moe.label<"ffn", layer = 1>} : (tensor<?x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  return %y1 : tensor<?x256xf32>
}
}
