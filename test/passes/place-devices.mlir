// RUN: moe-opt %s -moe-place-devices | FileCheck %s
// RUN: moe-opt %s -moe-place-devices 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: moe-opt %s -moe-place-devices | FileCheck %s --check-prefix=REASON
// RUN: moe-opt %s -moe-place-devices --verify-roundtrip | FileCheck %s --check-prefix=REJECTED
// RUN: sed 's/memory_bytes = 4456448/memory_bytes = 16777216/' %s | moe-opt -moe-place-devices | FileCheck %s --check-prefix=WHOLE --implicit-check-not='moe.device = "cpu0"'
// RUN: sed 's/2.2e9/2.2e11/; s/7.4e10/7.4e12/; s/2.2e10/2.2e12/' %s | moe-opt -moe-place-devices 2>&1 | FileCheck %s --check-prefix=HOST --implicit-check-not='moe.device = "gpu0"'

// One layer like DeepSeek's on a GPU and a slow host. The GPU has no room for
// all experts, of which a token reads the smallest fraction. Everything that
// each token reads in full goes to the GPU, in both phases and for any form of
// attention, and so do as many experts as still fit.

#target = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 4456448 : i64, read_bps = 9.3e11 : f64, int8_ops = 3.0e14 : f64, float_ops = 1.5e14 : f64, link_bps = 2.5e10 : f64, link_latency = 8.0e-6 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 67108864 : i64, read_bps = 2.2e9 : f64, int8_ops = 7.4e10 : f64, float_ops = 2.2e10 : f64}]}

// The budget counts each weight once though two phases use it (the embedding is
// tied to the head, so it needs no extra memory), and the cache of all 1024
// positions: 96 elements of 2 bytes.
// REMARK: remark: gpu0: {{.*}} MiB of 4.2 MiB: 1.2 MiB of weights, 192.0 KiB of KV cache for 1024 positions,
// REMARK: remark: cpu0: {{.*}} of 64.0 MiB: 3.7 MiB of weights, 0 B of KV cache
// REMARK: remark: gpu0 has attention of 1 of 1 layer, FFN of 1 of 1 layer, head, embedding, 9 of 64 experts of blk.0.ffn_experts
// REMARK: remark: 6 copies between devices take {{.*}} per decoded token

// REASON: moe.embedding {{.*}}moe.reason = "On gpu0: a token reads 0.1 % of its 265.6 KiB (0.00 FLOPs per resident byte and token), {{.*}} here instead of {{.*}} on cpu0; with the embedding on cpu0 a request would take {{.*}} % longer."
// REASON: moe.linear {{.*}}moe.reason = "On gpu0: a token reads all of its 102.0 KiB (1.88 FLOPs per resident byte and token), {{.*}} here instead of {{.*}} on cpu0; with the attention of the layer on cpu0 a request would take {{.*}} % longer."
// REASON: moe.rope {{.*}}moe.reason = "On gpu0: no weights, so it runs on the device with its layer's values ({{.*}} a token)."
// REASON: moe.experts {{.*}}moe.reason = "On cpu0: a token reads 3.1 % of its {{.*}} here instead of {{.*}} on gpu0; with the experts of the layer on gpu0 a request would take {{.*}} % less, but 3.7 MiB are needed and {{.*}} left there. 9 of 64 experts are on gpu0."

// The rejected device, with the predicted seconds of the op there and on the
// chosen device, and the reason.
// REJECTED: moe.linear {{.*}}moe.rejected = [#moe.rejected<device "cpu0" for "" seconds [[CPU:[0-9.eE+-]+]] chosen "gpu0" seconds [[GPU:[0-9.eE+-]+]], "with the attention of the layer on cpu0 a request would take {{.*}} % longer">]
// REJECTED: moe.rope {{.*}}moe.rejected = [#moe.rejected<device "cpu0" for "" {{.*}}, "with the attention of the layer on cpu0 a request would take {{.*}} % longer">]
// REJECTED: moe.experts {{.*}}moe.device = "gpu0"{{.*}}moe.rejected = [#moe.rejected<device "cpu0" for "" seconds {{.*}} chosen "gpu0" {{.*}}, "gpu0 has memory for them">]
// REJECTED: moe.experts {{.*}}moe.device = "cpu0"{{.*}}moe.rejected = [#moe.rejected<device "gpu0" for "" seconds {{.*}} chosen "cpu0" {{.*}}, "memory is left for no more than 9 of 64 experts">]

// Experts that fit go there as a whole.
// WHOLE: moe.embedding {{.*}}moe.device = "gpu0"
// WHOLE: moe.experts {{.*}}moe.device = "gpu0"

// With a fast host, copies for such a small model take longer than the model,
// so it stays there.
// HOST: remark: gpu0 has nothing beyond what rules ask for
// HOST: remark: predicted {{.*}}; with all on cpu0 {{.*}}; with experts alone there
module attributes {moe.target = #target} {
moe.weight @token_embd.weight : tensor<1000x256x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_kv_a_norm.weight : tensor<64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_q.weight : tensor<384x256x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_kv_a_mqa.weight : tensor<96x256x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_kv_b.weight : tensor<4x128x64x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_output.weight : tensor<256x256x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_gate_inp.weight : tensor<64x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_gate_exps.weight : tensor<64x128x256x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_down_exps.weight : tensor<64x256x128x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_gate_shexp.weight : tensor<128x256x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_down_shexp.weight : tensor<256x128x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @output_norm.weight : tensor<256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_kv_b.weight.keys : tensor<4x64x64x!moe.q8_0> = #moe.slice<dim = 1, begin = 0> of [@blk.0.attn_kv_b.weight]
moe.weight @blk.0.attn_kv_b.weight.values : tensor<4x64x64x!moe.q8_0> = #moe.slice<dim = 1, begin = 64> of [@blk.0.attn_kv_b.weight]

// CHECK-LABEL: func.func @decode
func.func @decode(%tokens: tensor<?xi32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 1024>} {
  %table = moe.weight_ref @token_embd.weight : tensor<1000x256x!moe.q8_0>
  %norm = moe.weight_ref @blk.0.attn_kv_a_norm.weight : tensor<64xf32>
  %wq = moe.weight_ref @blk.0.attn_q.weight : tensor<384x256x!moe.q8_0>
  %wa = moe.weight_ref @blk.0.attn_kv_a_mqa.weight : tensor<96x256x!moe.q8_0>
  %wo = moe.weight_ref @blk.0.attn_output.weight : tensor<256x256x!moe.q8_0>
  %wr = moe.weight_ref @blk.0.ffn_gate_inp.weight : tensor<64x256xf32>
  %ge = moe.weight_ref @blk.0.ffn_gate_exps.weight : tensor<64x128x256x!moe.q8_0>
  %de = moe.weight_ref @blk.0.ffn_down_exps.weight : tensor<64x256x128x!moe.q8_0>
  %gs = moe.weight_ref @blk.0.ffn_gate_shexp.weight : tensor<128x256x!moe.q8_0>
  %ds = moe.weight_ref @blk.0.ffn_down_shexp.weight : tensor<256x128x!moe.q8_0>
  %n = moe.weight_ref @output_norm.weight : tensor<256xf32>
  %wk = moe.weight_ref @blk.0.attn_kv_b.weight.keys : tensor<4x64x64x!moe.q8_0>
  %wv = moe.weight_ref @blk.0.attn_kv_b.weight.values : tensor<4x64x64x!moe.q8_0>
  // CHECK: moe.embedding {{.*}}moe.device = "gpu0"
  %x = moe.embedding %tokens, %table {moe.label = #moe.label<"token_embd">} : (tensor<?xi32>, tensor<1000x256x!moe.q8_0>) -> tensor<?x256xf32>
  // CHECK: moe.linear {{.*}}moe.device = "gpu0"
  %q = moe.linear %x, %wq {moe.label = #moe.label<"attn_q", layer = 0>} : (tensor<?x256xf32>, tensor<384x256x!moe.q8_0>) -> tensor<?x384xf32>
  // CHECK: moe.linear {{.*}}moe.device = "gpu0"
  %a = moe.linear %x, %wa {moe.label = #moe.label<"attn_kv_a", layer = 0>} : (tensor<?x256xf32>, tensor<96x256x!moe.q8_0>) -> tensor<?x96xf32>
  // CHECK: moe.rope {{.*}}moe.device = "gpu0"
  %qr = moe.rope %q {heads = 4, offset = 64, rope = #moe.rope<dim = 32, base = 1.0e4>, moe.label = #moe.label<"attn_q_rope", layer = 0>} : tensor<?x384xf32>
  // CHECK: moe.mla_latent {{.*}}moe.device = "gpu0"
  %kv = moe.mla_latent %a, %norm {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 32, base = 1.0e4>, moe.label = #moe.label<"attn_kv", layer = 0>} : (tensor<?x96xf32>, tensor<64xf32>) -> !moe.kv<96>
  // CHECK: moe.absorb_query {{.*}}moe.device = "gpu0"
  %ql = moe.absorb_query %qr, %wk {heads = 4, nope = 64, rope = 32, latent = 64, moe.label = #moe.label<"attn.absorb_query", layer = 0>} : (tensor<?x384xf32>, tensor<4x64x64x!moe.q8_0>) -> tensor<?x384xf32>
  // CHECK: moe.latent_attention {{.*}}moe.device = "gpu0"
  %ol = moe.latent_attention %ql, %kv {heads = 4, latent = 64, rope = 32, scale = 0.1, moe.label = #moe.label<"attn.latent", layer = 0>} : (tensor<?x384xf32>, !moe.kv<96>) -> tensor<?x256xf32>
  // CHECK: moe.expand_value {{.*}}moe.device = "gpu0"
  %o = moe.expand_value %ol, %wv {heads = 4, latent = 64, value = 64, moe.label = #moe.label<"attn.expand_value", layer = 0>} : (tensor<?x256xf32>, tensor<4x64x64x!moe.q8_0>) -> tensor<?x256xf32>
  // CHECK: moe.linear {{.*}}moe.device = "gpu0"
  %p = moe.linear %o, %wo {moe.label = #moe.label<"attn_output", layer = 0>} : (tensor<?x256xf32>, tensor<256x256x!moe.q8_0>) -> tensor<?x256xf32>
  // CHECK: moe.add {{.*}}moe.device = "gpu0"
  %h = moe.add %p, %x {moe.label = #moe.label<"attn_residual", layer = 0>} : tensor<?x256xf32>
  // CHECK: moe.router {{.*}}moe.device = "gpu0"
  %ids, %w = moe.router %h, %wr {top_k = 2, scoring = #moe.scoring<softmax>, moe.label = #moe.label<"ffn_router", layer = 0>} : (tensor<?x256xf32>, tensor<64x256xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  // CHECK: moe.experts {{.*}}moe.device = "cpu0"
  %e = moe.experts %h, %ids, %w, %ge, %ge, %de {moe.label = #moe.label<"ffn_experts", layer = 0>} : (tensor<?x256xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<64x128x256x!moe.q8_0>, tensor<64x128x256x!moe.q8_0>, tensor<64x256x128x!moe.q8_0>) -> tensor<?x256xf32>
  // CHECK: moe.ffn {{.*}}moe.device = "gpu0"
  %s = moe.ffn %h, %gs, %gs, %ds {moe.label = #moe.label<"ffn_shared", layer = 0>} : (tensor<?x256xf32>, tensor<128x256x!moe.q8_0>, tensor<128x256x!moe.q8_0>, tensor<256x128x!moe.q8_0>) -> tensor<?x256xf32>
  // CHECK: moe.add {{.*}}moe.device = "gpu0"
  %es = moe.add %e, %s {moe.label = #moe.label<"ffn_sum", layer = 0>} : tensor<?x256xf32>
  // An op without a label goes where its input is.
  // CHECK: moe.add {{.*}}moe.device = "gpu0"
  %y = moe.add %es, %h : tensor<?x256xf32>
  // CHECK: moe.rms_norm {{.*}}moe.device = "gpu0"
  %z = moe.rms_norm %y, %n {eps = 1.0e-6, moe.label = #moe.label<"output_norm">} : tensor<?x256xf32>, tensor<256xf32>
  return %z : tensor<?x256xf32>
}

// CHECK-LABEL: func.func @prefill
func.func @prefill(%tokens: tensor<?xi32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"prefill", min_tokens = 2, max_tokens = 16, context = 1024>} {
  %table = moe.weight_ref @token_embd.weight : tensor<1000x256x!moe.q8_0>
  %norm = moe.weight_ref @blk.0.attn_kv_a_norm.weight : tensor<64xf32>
  %wq = moe.weight_ref @blk.0.attn_q.weight : tensor<384x256x!moe.q8_0>
  %wa = moe.weight_ref @blk.0.attn_kv_a_mqa.weight : tensor<96x256x!moe.q8_0>
  %wo = moe.weight_ref @blk.0.attn_output.weight : tensor<256x256x!moe.q8_0>
  %wr = moe.weight_ref @blk.0.ffn_gate_inp.weight : tensor<64x256xf32>
  %ge = moe.weight_ref @blk.0.ffn_gate_exps.weight : tensor<64x128x256x!moe.q8_0>
  %de = moe.weight_ref @blk.0.ffn_down_exps.weight : tensor<64x256x128x!moe.q8_0>
  %gs = moe.weight_ref @blk.0.ffn_gate_shexp.weight : tensor<128x256x!moe.q8_0>
  %ds = moe.weight_ref @blk.0.ffn_down_shexp.weight : tensor<256x128x!moe.q8_0>
  %n = moe.weight_ref @output_norm.weight : tensor<256xf32>
  %wk = moe.weight_ref @blk.0.attn_kv_b.weight.keys : tensor<4x64x64x!moe.q8_0>
  %wv = moe.weight_ref @blk.0.attn_kv_b.weight.values : tensor<4x64x64x!moe.q8_0>
  // CHECK: moe.embedding {{.*}}moe.device = "gpu0"
  %x = moe.embedding %tokens, %table {moe.label = #moe.label<"token_embd">} : (tensor<?xi32>, tensor<1000x256x!moe.q8_0>) -> tensor<?x256xf32>
  // CHECK: moe.linear {{.*}}moe.device = "gpu0"
  %q = moe.linear %x, %wq {moe.label = #moe.label<"attn_q", layer = 0>} : (tensor<?x256xf32>, tensor<384x256x!moe.q8_0>) -> tensor<?x384xf32>
  // CHECK: moe.linear {{.*}}moe.device = "gpu0"
  %a = moe.linear %x, %wa {moe.label = #moe.label<"attn_kv_a", layer = 0>} : (tensor<?x256xf32>, tensor<96x256x!moe.q8_0>) -> tensor<?x96xf32>
  // CHECK: moe.rope {{.*}}moe.device = "gpu0"
  %qr = moe.rope %q {heads = 4, offset = 64, rope = #moe.rope<dim = 32, base = 1.0e4>, moe.label = #moe.label<"attn_q_rope", layer = 0>} : tensor<?x384xf32>
  // CHECK: moe.mla_latent {{.*}}moe.device = "gpu0"
  %kv = moe.mla_latent %a, %norm {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 32, base = 1.0e4>, moe.label = #moe.label<"attn_kv", layer = 0>} : (tensor<?x96xf32>, tensor<64xf32>) -> !moe.kv<96>
  // CHECK: moe.mla_attention {{.*}}moe.device = "gpu0"
  %o = moe.mla_attention %qr, %kv, %wk, %wv {heads = 4, nope = 64, rope = 32, latent = 64, value = 64, scale = 0.1, moe.label = #moe.label<"attn", layer = 0>} : (tensor<?x384xf32>, !moe.kv<96>, tensor<4x64x64x!moe.q8_0>, tensor<4x64x64x!moe.q8_0>) -> tensor<?x256xf32>
  // CHECK: moe.linear {{.*}}moe.device = "gpu0"
  %p = moe.linear %o, %wo {moe.label = #moe.label<"attn_output", layer = 0>} : (tensor<?x256xf32>, tensor<256x256x!moe.q8_0>) -> tensor<?x256xf32>
  // CHECK: moe.add {{.*}}moe.device = "gpu0"
  %h = moe.add %p, %x {moe.label = #moe.label<"attn_residual", layer = 0>} : tensor<?x256xf32>
  // CHECK: moe.router {{.*}}moe.device = "gpu0"
  %ids, %w = moe.router %h, %wr {top_k = 2, scoring = #moe.scoring<softmax>, moe.label = #moe.label<"ffn_router", layer = 0>} : (tensor<?x256xf32>, tensor<64x256xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  // CHECK: moe.experts {{.*}}moe.device = "cpu0"
  %e = moe.experts %h, %ids, %w, %ge, %ge, %de {moe.label = #moe.label<"ffn_experts", layer = 0>} : (tensor<?x256xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<64x128x256x!moe.q8_0>, tensor<64x128x256x!moe.q8_0>, tensor<64x256x128x!moe.q8_0>) -> tensor<?x256xf32>
  // CHECK: moe.ffn {{.*}}moe.device = "gpu0"
  %s = moe.ffn %h, %gs, %gs, %ds {moe.label = #moe.label<"ffn_shared", layer = 0>} : (tensor<?x256xf32>, tensor<128x256x!moe.q8_0>, tensor<128x256x!moe.q8_0>, tensor<256x128x!moe.q8_0>) -> tensor<?x256xf32>
  // CHECK: moe.add {{.*}}moe.device = "gpu0"
  %es = moe.add %e, %s {moe.label = #moe.label<"ffn_sum", layer = 0>} : tensor<?x256xf32>
  // An op without a label goes where its input is.
  // CHECK: moe.add {{.*}}moe.device = "gpu0"
  %y = moe.add %es, %h : tensor<?x256xf32>
  // CHECK: moe.rms_norm {{.*}}moe.device = "gpu0"
  %z = moe.rms_norm %y, %n {eps = 1.0e-6, moe.label = #moe.label<"output_norm">} : tensor<?x256xf32>, tensor<256xf32>
  return %z : tensor<?x256xf32>
}

// CHECK-LABEL: func.func @logits
func.func @logits(%hidden: tensor<?x256xf32>) -> tensor<?x1000xf32> attributes {moe.phase = #moe.phase<"logits", min_tokens = 1, max_tokens = 64, context = 1024>} {
  %head = moe.weight_ref @token_embd.weight : tensor<1000x256x!moe.q8_0>
  // CHECK: moe.lm_head {{.*}}moe.device = "gpu0"
  %l = moe.lm_head %hidden, %head {moe.label = #moe.label<"output">} : (tensor<?x256xf32>, tensor<1000x256x!moe.q8_0>) -> tensor<?x1000xf32>
  return %l : tensor<?x1000xf32>
}
}
