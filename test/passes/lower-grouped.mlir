// RUN: moe-opt %s -moe-select-kernels=weights=reference -moe-lower-to-plan | FileCheck %s

// Grouped attention from one fused projection, with sinks and a window, and
// experts with biases.

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", cores = 24 : i64, memory_bytes = 1000000 : i64, reserved_bytes = 1000 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e12 : f64, float_ops = 1.0e12 : f64}]}
#rope = #moe.rope<dim = 4, base = 1.0e4, magnitude = 1.25, divisors = [1.0, 4.0], neox = true>
#file = {path = "m.gguf", bytes = 10000000 : i64, header_bytes = 1024 : i64, header_hash = "0123456789abcdef0123456789abcdef"}

module attributes {moe.target = #xeon, moe.files = [#file],
  moe.model = {architecture = "gpt-oss", name = "tiny", hash = "abc", hidden = 64 : i64, vocab = 512 : i64, layers = 1 : i64, experts = 4 : i64, experts_used = 2 : i64, parameters = 1000 : i64}} {
moe.weight @attn_qkv.weight : tensor<152x64xf32> = #moe.tensor<file = 0, offset = 4096>
moe.weight @attn_qkv.bias : tensor<152xf32> = #moe.tensor<file = 0, offset = 100000>
moe.weight @attn_qkv.weight.0 : tensor<96x64xf32> = #moe.slice<dim = 0, begin = 0> of [@attn_qkv.weight]
moe.weight @attn_qkv.weight.96 : tensor<32x64xf32> = #moe.slice<dim = 0, begin = 96> of [@attn_qkv.weight]
moe.weight @attn_qkv.weight.128 : tensor<24x64xf32> = #moe.slice<dim = 0, begin = 128> of [@attn_qkv.weight]
moe.weight @attn_qkv.bias.0 : tensor<96xf32> = #moe.slice<dim = 0, begin = 0> of [@attn_qkv.bias]
moe.weight @attn_qkv.bias.96 : tensor<32xf32> = #moe.slice<dim = 0, begin = 96> of [@attn_qkv.bias]
moe.weight @n : tensor<16xf32> = #moe.tensor<file = 0, offset = 2048>
moe.weight @s : tensor<6xf32> = #moe.tensor<file = 0, offset = 2048>
moe.weight @wo : tensor<64x72xf32> = #moe.tensor<file = 0, offset = 50000>
moe.weight @wr : tensor<4x64xf32> = #moe.tensor<file = 0, offset = 60000>
moe.weight @rb : tensor<4xf32> = #moe.tensor<file = 0, offset = 70000>
moe.weight @ffn_gate_up_exps.weight : tensor<4x32x64xf32> = #moe.tensor<file = 0, offset = 200000>
moe.weight @ffn_gate_up_exps.weight.0 : tensor<4x16x64xf32> = #moe.slice<dim = 1, begin = 0> of [@ffn_gate_up_exps.weight]
moe.weight @ffn_gate_up_exps.weight.16 : tensor<4x16x64xf32> = #moe.slice<dim = 1, begin = 16> of [@ffn_gate_up_exps.weight]
moe.weight @ffn_down.0.weight : tensor<64x16xf32> = #moe.tensor<file = 0, offset = 300000>
moe.weight @ffn_down.1.weight : tensor<64x16xf32> = #moe.tensor<file = 0, offset = 310000>
moe.weight @ffn_down.2.weight : tensor<64x16xf32> = #moe.tensor<file = 0, offset = 320000>
moe.weight @ffn_down.3.weight : tensor<64x16xf32> = #moe.tensor<file = 0, offset = 330000>
moe.weight @ffn_down.0.weight.stacked : tensor<4x64x16xf32> = #moe.stack of [@ffn_down.0.weight, @ffn_down.1.weight, @ffn_down.2.weight, @ffn_down.3.weight]
moe.weight @gb : tensor<4x16xf32> = #moe.tensor<file = 0, offset = 400000>
moe.weight @db : tensor<4x64xf32> = #moe.tensor<file = 0, offset = 410000>
moe.weight @sg : tensor<1x64xf32> = #moe.tensor<file = 0, offset = 420000>

// A slice is a view: 96 rows of 256 bytes come before the keys.
// CHECK: %[[WQ:.*]] = plan.weight "attn_qkv.weight.0" in %{{.*}} at 4096 : 1x96x64xF32 strides [38912, 256]
// CHECK: %[[BQ:.*]] = plan.weight "attn_qkv.bias.0" in %{{.*}} at 100000 : 1x1x96xF32
// CHECK: plan.weight "attn_qkv.weight.96" in %{{.*}} at 28672 : 1x32x64xF32 strides [38912, 256]
// CHECK: plan.weight "attn_qkv.bias.96" in %{{.*}} at 100384 : 1x1x32xF32
// Gate and up of each expert follow each other.
// CHECK: %[[GATE:.*]] = plan.weight "ffn_gate_up_exps.weight.0" in %{{.*}} at 200000 : 4x16x64xF32 strides [8192, 256]
// CHECK: %[[UP:.*]] = plan.weight "ffn_gate_up_exps.weight.16" in %{{.*}} at 204096 : 4x16x64xF32 strides [8192, 256]
// One tensor per expert.
// CHECK: %[[D0:.*]] = plan.weight "ffn_down.0.weight"
// CHECK: %[[DOWN:.*]] = plan.derived "ffn_down.0.weight.stacked" = #moe.stack of %[[D0]], %{{.*}}, %{{.*}}, %{{.*}} : 4x64x16xF32
// CHECK: plan.constant "rope.inv_freq" [1.000000e+00, 2.500000e-03]
// CHECK: %[[KV:.*]] = plan.kv {{.*}} layer 0 bf16 rows 8192 cols 256
// CHECK: plan.inst linear {{.*}} w = %[[WQ]], bias = %[[BQ]]
// CHECK: plan.inst rms_norm {{.*}} {groups = 6,
// CHECK: plan.inst rope_table {{.*}} {scale = 1.250000e+00}
// CHECK: plan.inst rope {{.*}} {heads = 6, head_stride = 16, offset = 0, dim = 4, neox = 1}
// CHECK: plan.inst kv_store {{.*}} (k = %{{.*}}, v = %{{.*}}, kv = %[[KV]]) {heads = 2, key = 16, value = 12}
// The window is no longer than a KV split.
// CHECK: plan.inst attention {{.*}} kv = %[[KV]], sinks = %{{.*}}, out = %[[A:.*]]) {heads = 6, kv_heads = 2, key = 16, value = 12, splits = 1, window = 16, scale = 2.500000e-01, softcap = 0.000000e+00}
// CHECK-NOT: plan.inst combine_splits
// Two groups of heads with separate rows: each core gets one of 24 parts.
// CHECK: plan.inst attention {{.*}} kv = %[[KV]], out = %[[SPANS:.*]]) {heads = 6, kv_heads = 2, key = 16, value = 12, splits = 12, window = 0, scale = 2.500000e-01, softcap = 5.000000e+01}
// CHECK: plan.inst combine_splits {{.*}} (x = %[[SPANS]], out = %{{.*}}) {heads = 6, latent = 12, splits = 12, window = 0}
// CHECK: plan.inst linear {{.*}} bias = %[[RB:.*]], out = %[[LOGITS:.*]])
// CHECK: plan.inst router {{.*}} (logits = %[[LOGITS]], ids
// CHECK: plan.inst experts_gate_up {{.*}} gate = %[[GATE]], up = %[[UP]], gate_bias = %{{.*}}, up_bias = %{{.*}}, offsets = {{.*}} {top_k = 2, activation = 2}
// CHECK: plan.inst experts_linear {{.*}} w = %[[DOWN]], bias = %{{.*}}, offsets =
// CHECK: plan.inst linear {{.*}} out = %[[G:.*]])
// CHECK: plan.inst gate_mul {{.*}} (x = %[[Y:.*]], gate = %[[G]], out = %[[Y]])
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 4, context = 8192>} {
  %qkv = moe.weight_ref @attn_qkv.weight : tensor<152x64xf32>
  %qkvb = moe.weight_ref @attn_qkv.bias : tensor<152xf32>
  %wq = moe.weight_ref @attn_qkv.weight.0 : tensor<96x64xf32>
  %wk = moe.weight_ref @attn_qkv.weight.96 : tensor<32x64xf32>
  %wv = moe.weight_ref @attn_qkv.weight.128 : tensor<24x64xf32>
  %bq = moe.weight_ref @attn_qkv.bias.0 : tensor<96xf32>
  %bk = moe.weight_ref @attn_qkv.bias.96 : tensor<32xf32>
  %n = moe.weight_ref @n : tensor<16xf32>
  %s = moe.weight_ref @s : tensor<6xf32>
  %wo = moe.weight_ref @wo : tensor<64x72xf32>
  %wr = moe.weight_ref @wr : tensor<4x64xf32>
  %rb = moe.weight_ref @rb : tensor<4xf32>
  %gu = moe.weight_ref @ffn_gate_up_exps.weight : tensor<4x32x64xf32>
  %gate = moe.weight_ref @ffn_gate_up_exps.weight.0 : tensor<4x16x64xf32>
  %up = moe.weight_ref @ffn_gate_up_exps.weight.16 : tensor<4x16x64xf32>
  %d0 = moe.weight_ref @ffn_down.0.weight : tensor<64x16xf32>
  %d1 = moe.weight_ref @ffn_down.1.weight : tensor<64x16xf32>
  %d2 = moe.weight_ref @ffn_down.2.weight : tensor<64x16xf32>
  %d3 = moe.weight_ref @ffn_down.3.weight : tensor<64x16xf32>
  %down = moe.weight_ref @ffn_down.0.weight.stacked : tensor<4x64x16xf32>
  %gb = moe.weight_ref @gb : tensor<4x16xf32>
  %db = moe.weight_ref @db : tensor<4x64xf32>
  %sg = moe.weight_ref @sg : tensor<1x64xf32>
  %q0 = moe.linear %x, %wq bias %bq {moe.label = #moe.label<"q">, moe.device = "cpu0"} : (tensor<?x64xf32>, tensor<96x64xf32>, tensor<96xf32>) -> tensor<?x96xf32>
  %q1 = moe.rms_norm %q0, %n {eps = 1.0e-6, groups = 6, moe.label = #moe.label<"qn">, moe.device = "cpu0"} : tensor<?x96xf32>, tensor<16xf32>
  %q = moe.rope %q1 {heads = 6, offset = 0, rope = #rope, moe.label = #moe.label<"qr">, moe.device = "cpu0"} : tensor<?x96xf32>
  %k = moe.linear %x, %wk bias %bk {moe.label = #moe.label<"k">, moe.device = "cpu0"} : (tensor<?x64xf32>, tensor<32x64xf32>, tensor<32xf32>) -> tensor<?x32xf32>
  %v = moe.linear %x, %wv {moe.label = #moe.label<"v">, moe.device = "cpu0"} : (tensor<?x64xf32>, tensor<24x64xf32>) -> tensor<?x24xf32>
  %kv = moe.kv_store %k, %v {layer = 0, kv_heads = 2, moe.label = #moe.label<"kv">, moe.device = "cpu0"} : (tensor<?x32xf32>, tensor<?x24xf32>) -> !moe.kv<256>
  %a = moe.gqa_attention %q, %kv sinks %s {heads = 6, kv_heads = 2, key = 16, value = 12, scale = 0.25, window = 16, moe.label = #moe.label<"a">, moe.device = "cpu0"} : (tensor<?x96xf32>, !moe.kv<256>, tensor<6xf32>) -> tensor<?x72xf32>
  %b = moe.gqa_attention %q, %kv {heads = 6, kv_heads = 2, key = 16, value = 12, scale = 0.25, softcap = 50.0, moe.label = #moe.label<"b">, moe.device = "cpu0"} : (tensor<?x96xf32>, !moe.kv<256>) -> tensor<?x72xf32>
  %ab = moe.add %a, %b {moe.label = #moe.label<"ab">, moe.device = "cpu0"} : tensor<?x72xf32>
  %h = moe.linear %ab, %wo {moe.label = #moe.label<"o">, moe.device = "cpu0"} : (tensor<?x72xf32>, tensor<64x72xf32>) -> tensor<?x64xf32>
  %ids, %w = moe.router %h, %wr logit_bias %rb {top_k = 2, scoring = #moe.scoring<softmax_topk>, moe.label = #moe.label<"r">, moe.device = "cpu0"} : (tensor<?x64xf32>, tensor<4x64xf32>, tensor<4xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  %y = moe.experts %h, %ids, %w, %gate, %up, %down gate_bias %gb up_bias %gb down_bias %db {fused, activation = #moe.activation<clamped_swiglu>, moe.label = #moe.label<"e">, moe.device = "cpu0"} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<4x16x64xf32>, tensor<4x16x64xf32>, tensor<4x64x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x64xf32>) -> tensor<?x64xf32>
  %g = moe.linear %h, %sg {moe.label = #moe.label<"g">, moe.device = "cpu0"} : (tensor<?x64xf32>, tensor<1x64xf32>) -> tensor<?x1xf32>
  %z = moe.gate_mul %y, %g {moe.label = #moe.label<"z">, moe.device = "cpu0"} : tensor<?x64xf32>, tensor<?x1xf32>
  return %z : tensor<?x64xf32>
}
}
