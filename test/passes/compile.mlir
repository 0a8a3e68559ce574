// DEFINE: %{options} = ctx=1024 ubatch=16 stream-experts=0 place=token_embd=cpu0,blk.*.ffn_experts=cpu0
// RUN: moe-opt %s -moe-compile="%{options}" | FileCheck %s
// RUN: moe-opt %s -moe-compile="ctx=1024 ubatch=16 experts=1 mla=folded" | FileCheck %s --check-prefix=OPTIONS
// RUN: moe-opt %s -moe-compile="%{options}" -o %t.1 && moe-opt %s -moe-compile="%{options}" -o %t.2 && cmp %t.1 %t.2
// RUN: moe-opt %s -moe-compile="%{options} weights=reference" | FileCheck %s --check-prefix=REFERENCE
// RUN: moe-opt %s -moe-compile="%{options}" -moe-plan | FileCheck %s --check-prefix=PLAN
// RUN: sed 's/memory_bytes = 16777216/memory_bytes = 65536/' %s | moe-opt -moe-compile="ctx=1024 ubatch=16" | FileCheck %s --check-prefix=SMALL

// All passes on the graph in order, on one layer like DeepSeek's: each pass
// gets what it needs from earlier ones. Running twice gives the same bytes.
// Everything would be on the GPU, but rules keep two ops on the host.

#target = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 16777216 : i64, read_bps = 9.3e11 : f64, int8_ops = 3.0e14 : f64, float_ops = 1.5e14 : f64, link_bps = 2.5e10 : f64, link_latency = 8.0e-6 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 67108864 : i64, read_bps = 2.2e9 : f64, int8_ops = 7.4e10 : f64, float_ops = 2.2e10 : f64}]}

// The form is the best one for the device of attention, not for the first
// device.
// SMALL-LABEL: func.func @decode
// SMALL: moe.mla_latent {{.*}} -> !moe.kv<96, f16>
// SMALL: moe.device = "cpu0"{{.*}}#moe.label<"attention.latent", layer = 0>, moe.reason = "MLA form factored: {{.*}} on cpu0 for 1 token
// SMALL-LABEL: func.func @prefill
// SMALL: moe.device = "cpu0"{{.*}}#moe.label<"attention.latent", layer = 0>, moe.reason = "MLA form factored: {{.*}} on cpu0 for 16 tokens

// CHECK-LABEL: func.func @decode
// CHECK: %[[X0:.*]] = moe.embedding {{.*}}moe.device = "cpu0", moe.kernels = #moe.kernels<embed_avx512>
// CHECK: %[[X:.*]] = moe.transfer %[[X0]] from "cpu0" to "gpu0"
// CHECK: moe.linear %[[X]], {{.*}} moe.kernels = #moe.kernels<quantize_cuda, linear_cuda(gemm_q8_0_rows16_cuda)>, moe.label = #moe.label<"attn_q", layer = 0>
// CHECK: moe.mla_latent {{.*}} -> !moe.kv<96, f16>
// CHECK: moe.absorb_query {{.*}}moe.kernels = #moe.kernels<absorb_query_cuda>
// The first residual comes from the host, so its sum is a separate op.
// CHECK: %[[P:.*]] = moe.linear {{.*}}moe.label = #moe.label<"attn_output", layer = 0>
// CHECK: %[[H:.*]] = moe.add %[[P]], %[[X]]
// CHECK: moe.router %[[H]]
// CHECK: %[[E0:.*]] = moe.experts {{.*}} {fused, moe.device = "cpu0", moe.kernels = #moe.kernels<{{.*}}experts_gate_up_avx512(gemm_q8_0_rows16_avx512, gemm_q8_0_rows16_avx512), quantize_avx512, experts_linear_avx512(gemm_q8_0_rows16_avx512)
// CHECK: %[[E:.*]] = moe.transfer %[[E0]] from "cpu0" to "gpu0"
// CHECK: %[[S:.*]] = moe.ffn %[[H]], {{.*}} residual %[[H]] {fused, moe.device = "gpu0"
// CHECK: %[[Y:.*]] = moe.add %[[E]], %[[S]]
// CHECK: %[[R:.*]] = moe.transfer %[[Y]] from "gpu0" to "cpu0"
// CHECK: return %[[R]]
// CHECK-LABEL: func.func @prefill
// CHECK: moe.kernels = #moe.kernels<embed_avx512>
// CHECK-LABEL: func.func @logits
// CHECK: moe.lm_head {{.*}}moe.kernels = #moe.kernels<quantize_cuda, linear_cuda(gemm_q8_0_rows16_cuda)>
// CHECK-NOT: @forward

// OPTIONS: moe.weight @blk.0.attn_q.weight.folded : {{.*}} = #moe.fold_query
// OPTIONS-LABEL: func.func @decode
// OPTIONS: moe.weight_ref @blk.0.attn_q.weight.folded
// OPTIONS: moe.router {{.*}}top_k = 1
// OPTIONS-LABEL: func.func @prefill
// OPTIONS: moe.weight_ref @blk.0.attn_q.weight.folded

// REFERENCE: moe.experts {{.*}} moe.kernels = #moe.kernels<{{.*}}experts_gate_up_avx512(gemm_q8_0_avx512, gemm_q8_0_avx512), quantize_avx512, experts_linear_avx512(gemm_q8_0_avx512)
// REFERENCE-NOT: gemm_q8_0_rows16_avx512

// The embedding reads the file's layout, experts read packed rows.
// PLAN: %[[TABLE:.*]] = plan.weight "token_embd.weight" in %gguf
// PLAN: %[[GATE:.*]] = plan.weight "blk.0.ffn_gate_exps.weight" in %gguf
// PLAN: %[[PACKED:.*]] = plan.pack "blk.0.ffn_gate_exps.weight" of %[[GATE]] layout rows16
// PLAN: plan.inst embed on %cpu0.compute {{.*}} table = %[[TABLE]]
// Only a GPU's copies read or write the host's memory.
// PLAN: plan.inst copy on %gpu0.copy ["copy_cuda"] (x = %token_embd, out = %token_embd.to_gpu0)
// PLAN: plan.inst copy on %gpu0.copy ["copy_cuda"] (x = %{{.*}}, out = %blk.0.attn_residual.to_cpu0)
// PLAN: plan.inst experts_gate_up on %cpu0.compute {{.*}} gate = %[[PACKED]], up = %[[PACKED]]
module attributes {moe.target = #target,
  moe.files = [{path = "m.gguf", bytes = 8000000 : i64, header_bytes = 64 : i64, header_hash = "00000000000000000000000000000000"}],
  moe.model = {architecture = "deepseek2", name = "m", hash = "00000000000000000000000000000000", hidden = 256 : i64, vocab = 1000 : i64, layers = 1 : i64, context_length = 4096 : i64, heads = 4 : i64, experts = 8 : i64, experts_used = 2 : i64, latent = 64 : i64, rope = 32 : i64, parameters = 1000000 : i64}} {
moe.weight @token_embd.weight : tensor<1000x256x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_kv_a_norm.weight : tensor<64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_q.weight : tensor<384x256x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_kv_a_mqa.weight : tensor<96x256x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_kv_b.weight : tensor<4x128x64x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_output.weight : tensor<256x256x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_gate_inp.weight : tensor<8x256xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_gate_exps.weight : tensor<8x128x256x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_down_exps.weight : tensor<8x256x128x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_gate_shexp.weight : tensor<128x256x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_down_shexp.weight : tensor<256x128x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.attn_kv_b.weight.keys : tensor<4x64x64x!moe.q8_0> = #moe.slice<dim = 1, begin = 0> of [@blk.0.attn_kv_b.weight]
moe.weight @blk.0.attn_kv_b.weight.values : tensor<4x64x64x!moe.q8_0> = #moe.slice<dim = 1, begin = 64> of [@blk.0.attn_kv_b.weight]
func.func @forward(%tokens: tensor<?xi32>) -> tensor<?x256xf32> {
  %table = moe.weight_ref @token_embd.weight : tensor<1000x256x!moe.q8_0>
  %norm = moe.weight_ref @blk.0.attn_kv_a_norm.weight : tensor<64xf32>
  %wq = moe.weight_ref @blk.0.attn_q.weight : tensor<384x256x!moe.q8_0>
  %wa = moe.weight_ref @blk.0.attn_kv_a_mqa.weight : tensor<96x256x!moe.q8_0>
  %wo = moe.weight_ref @blk.0.attn_output.weight : tensor<256x256x!moe.q8_0>
  %wr = moe.weight_ref @blk.0.ffn_gate_inp.weight : tensor<8x256xf32>
  %ge = moe.weight_ref @blk.0.ffn_gate_exps.weight : tensor<8x128x256x!moe.q8_0>
  %de = moe.weight_ref @blk.0.ffn_down_exps.weight : tensor<8x256x128x!moe.q8_0>
  %gs = moe.weight_ref @blk.0.ffn_gate_shexp.weight : tensor<128x256x!moe.q8_0>
  %ds = moe.weight_ref @blk.0.ffn_down_shexp.weight : tensor<256x128x!moe.q8_0>
  %wk = moe.weight_ref @blk.0.attn_kv_b.weight.keys : tensor<4x64x64x!moe.q8_0>
  %wv = moe.weight_ref @blk.0.attn_kv_b.weight.values : tensor<4x64x64x!moe.q8_0>
  %x = moe.embedding %tokens, %table {moe.label = #moe.label<"token_embd">} : (tensor<?xi32>, tensor<1000x256x!moe.q8_0>) -> tensor<?x256xf32>
  %q = moe.linear %x, %wq {moe.label = #moe.label<"attn_q", layer = 0>} : (tensor<?x256xf32>, tensor<384x256x!moe.q8_0>) -> tensor<?x384xf32>
  %a = moe.linear %x, %wa {moe.label = #moe.label<"attn_kv_a", layer = 0>} : (tensor<?x256xf32>, tensor<96x256x!moe.q8_0>) -> tensor<?x96xf32>
  %qr = moe.rope %q {heads = 4, offset = 64, rope = #moe.rope<dim = 32, base = 1.0e4>, moe.label = #moe.label<"attn_q_rope", layer = 0>} : tensor<?x384xf32>
  %kv = moe.mla_latent %a, %norm {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 32, base = 1.0e4>, moe.label = #moe.label<"attn_kv", layer = 0>} : (tensor<?x96xf32>, tensor<64xf32>) -> !moe.kv<96>
  %o = moe.mla_attention %qr, %kv, %wk, %wv {heads = 4, nope = 64, rope = 32, latent = 64, value = 64, scale = 0.1, moe.label = #moe.label<"attention", layer = 0>} : (tensor<?x384xf32>, !moe.kv<96>, tensor<4x64x64x!moe.q8_0>, tensor<4x64x64x!moe.q8_0>) -> tensor<?x256xf32>
  %p = moe.linear %o, %wo {moe.label = #moe.label<"attn_output", layer = 0>} : (tensor<?x256xf32>, tensor<256x256x!moe.q8_0>) -> tensor<?x256xf32>
  %h = moe.add %p, %x {moe.label = #moe.label<"attn_residual", layer = 0>} : tensor<?x256xf32>
  %ids, %w = moe.router %h, %wr {top_k = 2, scoring = #moe.scoring<softmax>, moe.label = #moe.label<"ffn_router", layer = 0>} : (tensor<?x256xf32>, tensor<8x256xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  %e = moe.experts %h, %ids, %w, %ge, %ge, %de {moe.label = #moe.label<"ffn_experts", layer = 0>} : (tensor<?x256xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x128x256x!moe.q8_0>, tensor<8x128x256x!moe.q8_0>, tensor<8x256x128x!moe.q8_0>) -> tensor<?x256xf32>
  %s = moe.ffn %h, %gs, %gs, %ds {moe.label = #moe.label<"ffn_shared", layer = 0>} : (tensor<?x256xf32>, tensor<128x256x!moe.q8_0>, tensor<128x256x!moe.q8_0>, tensor<256x128x!moe.q8_0>) -> tensor<?x256xf32>
  %es = moe.add %e, %s {moe.label = #moe.label<"ffn_sum", layer = 0>} : tensor<?x256xf32>
  %y = moe.add %es, %h {moe.label = #moe.label<"ffn_residual", layer = 0>} : tensor<?x256xf32>
  return %y : tensor<?x256xf32>
}
func.func @logits(%hidden: tensor<?x256xf32>) -> tensor<?x1000xf32> {
  %head = moe.weight_ref @token_embd.weight : tensor<1000x256x!moe.q8_0>
  %l = moe.lm_head %hidden, %head {moe.label = #moe.label<"output">} : (tensor<?x256xf32>, tensor<1000x256x!moe.q8_0>) -> tensor<?x1000xf32>
  return %l : tensor<?x1000xf32>
}
}
