// RUN: moe-opt %s -moe-select-kernels=weights=reference -moe-lower-to-plan | FileCheck %s
// RUN: sed 's/!moe.kv<36>/!moe.kv<36, f32>/g' %s | moe-opt -moe-select-kernels=weights=reference -moe-lower-to-plan=options=--ctx=64 | FileCheck %s --check-prefix=OPTIONS

// One attention block and one MoE block, decoded in latent form and prefilled
// with decompressed keys and values.

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000000 : i64, reserved_bytes = 1000 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e12 : f64, float_ops = 1.0e12 : f64}]}
#rope = #moe.rope<dim = 4, base = 1.0e4>

module attributes {
  moe.target = #xeon,
  moe.model = {architecture = "deepseek2", name = "tiny", hash = "abc", hidden = 256 : i64, vocab = 512 : i64, layers = 1 : i64, experts = 4 : i64, experts_used = 2 : i64, parameters = 1000 : i64},
  moe.files = [{path = "m.gguf", bytes = 10000000 : i64, header_bytes = 1024 : i64, header_hash = "0123456789abcdef0123456789abcdef"}],
  moe.notes = ["Skipped a layer."]} {
moe.weight @token_embd.weight : tensor<512x256x!moe.q4_k> = #moe.tensor<file = 0, offset = 1024>
moe.weight @attn_norm.weight : tensor<256xf32> = #moe.tensor<file = 0, offset = 80000>
moe.weight @attn_q.weight : tensor<24x256x!moe.q4_k> = #moe.tensor<file = 0, offset = 90000>
moe.weight @attn_kv_a_mqa.weight : tensor<36x256x!moe.q4_k> = #moe.tensor<file = 0, offset = 100000>
moe.weight @attn_kv_a_norm.weight : tensor<32xf32> = #moe.tensor<file = 0, offset = 120000>
moe.weight @attn_kv_b.weight : tensor<2x14x32xbf16> = #moe.tensor<file = 0, offset = 130000>
moe.weight @attn_output.weight : tensor<256x12xf32> = #moe.tensor<file = 0, offset = 140000>
moe.weight @ffn_gate_inp.weight : tensor<4x256xf32> = #moe.tensor<file = 0, offset = 160000>
moe.weight @ffn_up_exps.weight : tensor<4x32x256x!moe.q4_k> = #moe.tensor<file = 0, offset = 200000>
moe.weight @ffn_down_exps.weight : tensor<4x256x32x!moe.q8_0> = #moe.tensor<file = 0, offset = 300000>
moe.weight @attn_kv_b.weight.keys : tensor<2x8x32xbf16> = #moe.slice<dim = 1, begin = 0> of [@attn_kv_b.weight]
moe.weight @attn_kv_b.weight.values : tensor<2x6x32xbf16> = #moe.slice<dim = 1, begin = 8> of [@attn_kv_b.weight]

// CHECK-LABEL: plan.program attributes {architecture = "deepseek2", compiler = "moec {{.*}}", context = 64 : i32, experts = 4 : i32, experts_used = 2 : i32, hidden = 256 : i64, layers = 1 : i32, model_hash = "abc", model_name = "tiny", options = "", parameters = 1000 : i64, target = "xeon", vocab = 512 : i64}
// CHECK-NEXT: %[[CPU:.*]] = plan.device "cpu0" cpu isa "avx512" memory 999000
// CHECK-NEXT: plan.queue compute of %[[CPU]]
// CHECK-NEXT: %[[FILE:.*]] = plan.file model "m.gguf" bytes 10000000 header 1024 hash "0123456789abcdef0123456789abcdef"
// CHECK-NEXT: %[[EMBD:.*]] = plan.weight "token_embd.weight" in %[[FILE]] at 1024 : 1x512x256xQ4_K strides [73728, 144]
// A vector is one row.
// CHECK-NEXT: %[[NORM:.*]] = plan.weight "attn_norm.weight" in %[[FILE]] at 80000 : 1x1x256xF32 strides [1024, 1024]
// CHECK-NEXT: %[[WQ:.*]] = plan.weight "attn_q.weight"
// CHECK-NEXT: %[[WKVA:.*]] = plan.weight "attn_kv_a_mqa.weight"
// CHECK-NEXT: plan.weight "attn_kv_a_norm.weight"
// Views of attn_kv_b: of each head's 8 + 6 rows of 64 bytes.
// CHECK-NEXT: %[[WK:.*]] = plan.weight "attn_kv_b.weight.keys" in %[[FILE]] at 130000 : 2x8x32xBF16 strides [896, 64]
// CHECK-NEXT: %[[WV:.*]] = plan.weight "attn_kv_b.weight.values" in %[[FILE]] at 130512 : 2x6x32xBF16 strides [896, 64]
// CHECK-NEXT: plan.weight "attn_output.weight"
// CHECK-NEXT: plan.weight "ffn_gate_inp.weight"
// CHECK-NEXT: plan.weight "ffn_up_exps.weight" in %[[FILE]] at 200000 : 4x32x256xQ4_K strides [4608, 144]
// CHECK-NEXT: plan.weight "ffn_down_exps.weight"
// Prefill reads the same weights: no further entry.
// CHECK-NEXT: %[[FREQ:.*]] = plan.constant "rope.inv_freq" [1.000000e+00, 0.00999999977]
// CHECK-NEXT: %[[KV:.*]] = plan.kv on %[[CPU]] layer 0 bf16 rows 64 cols 36{{$}}
// CHECK-NEXT: plan.note "Skipped a layer."
// CHECK-NEXT: %[[WHY:.*]] = plan.explain "token_embd" phase "decode" on "cpu0" kernel "embed_avx512" because "Few rows are read."
// The kernels of an op with gemms are the gemms.
// CHECK: plan.explain "attn_q" phase "decode" on "cpu0" kernel "gemm_q4_k_avx512"
// CHECK: plan.explain "attn" phase "prefill" on "cpu0" kernel "mla_attention_avx512+gemm_bf16{{.*}}_avx512"

// OPTIONS: options = "--ctx=64"
// OPTIONS: plan.kv {{.*}} layer 0 f32 rows 64 cols 36

// CHECK-LABEL: plan.phase "decode" tokens 1 to 1
// CHECK: %[[IN:.*]] = plan.buffer "input" on %[[CPU]] i32 cols 1 rows [1, 0]{{$}}
// CHECK: %[[X:.*]] = plan.buffer "token_embd" on %[[CPU]] f32 cols 256 rows [1, 0]{{$}}
// CHECK: plan.inst embed on %[[CPU]].compute ["embed_avx512"] (tokens = %[[IN]], table = %[[EMBD]], out = %[[X]]) {begin = 0} for %[[WHY]] work {first_bytes = 1.440000e+02, again = 1.000000e+00}
// CHECK: plan.inst rms_norm {{.*}} (x = %[[X]], weight = %[[NORM]], out = %[[H:.*]]) {groups = 1,
// The input is quantised once for both projections; the cost model does not
// count that.
// CHECK: %[[A8:.*]] = plan.buffer "attn_norm.a8" on %[[CPU]] a8 cols 256 rows [1, 0]
// CHECK: plan.inst quantize {{.*}} (x = %[[H]], out = %[[A8]]){{[^{]*$}}
// CHECK: plan.inst linear on %[[CPU]].compute ["linear_avx512", "gemm_q4_k_avx512"] (act = %[[A8]], w = %[[WQ]], out = %[[Q:.*]]) {accumulate = 0} {{.*}} work {token_ops = 1.228800e+04, first_bytes = 3.456000e+03}
// One table for queries and keys. RoPE rotates in place.
// CHECK: plan.inst rope_table {{.*}} (inv_freq = %[[FREQ]], out = %[[TABLE:.*]])
// CHECK: plan.inst rope {{.*}} (x = %[[Q]], table = %[[TABLE]]) {heads = 2, head_stride = 12, offset = 8, dim = 4, neox = 0}
// CHECK-NOT: plan.inst quantize
// CHECK: plan.inst linear {{.*}} (act = %[[A8]], w = %[[WKVA]], out = %[[KVA:.*]]) {accumulate = 0}
// CHECK-NOT: plan.inst rope_table
// CHECK: plan.inst mla_latent {{.*}} (x = %[[KVA]], weight = %{{.*}}, table = %[[TABLE]], kv = %[[KV]]) {latent = 32, rope = 4, eps = {{.*}}}
// CHECK: plan.inst absorb_query {{.*}} (q = %[[Q]], w = %[[WK]], out = %[[QL:.*]]) {heads = 2, nope = 8, rope = 4, latent = 32}
// 2 * (32 + 4) + 2 * 32 + 4 for each head, of each row that a token sees.
// CHECK: plan.inst latent_attention {{.*}} (q = %[[QL]], kv = %[[KV]], out = %[[OL:.*]]) {heads = 2, latent = 32, rope = 4, splits = 1, scale = 5.000000e-01} {{.*}} work {seen_ops = 2.800000e+02}
// CHECK: plan.inst head_linear {{.*}} (x = %[[OL]], w = %[[WV]], out = %[[O:.*]]) {heads = 2, rows = 6, cols = 32, tail = 0}
// The embedding is not used later, so the projection adds to its buffer. F32
// weights read the activation as it is.
// CHECK-NOT: plan.inst quantize
// CHECK: plan.inst linear {{.*}} (act = %[[O]], w = %{{.*}}, out = %[[X]]) {accumulate = 1}
// CHECK: plan.inst linear {{.*}} (act = %[[X]], w = %{{.*}}, out = %[[LOGITS:.*]]) {accumulate = 0}
// CHECK: %[[IDS:.*]] = plan.buffer "router.ids" on %[[CPU]] i32 cols 2 rows [1, 0]
// CHECK: plan.inst router {{.*}} (logits = %[[LOGITS]], ids = %[[IDS]], weights = %[[MIX:.*]]) {experts = 4, top_k = 2, groups = 1, groups_used = 1, group_best = 1, scoring = 2, normalize = 1, scale = 2.500000e+00}
// CHECK: %[[OFFSETS:.*]] = plan.buffer "router.offsets" on %[[CPU]] i32 cols 5 rows [0, 1]
// CHECK: plan.inst expert_group {{.*}} (ids = %[[IDS]], offsets = %[[OFFSETS]], slots = %[[SLOTS:.*]]) {experts = 4, top_k = 2, begin = 0, count = 0}
// The inner activation has one row per expert that a token uses. A token reads
// 2 of 4 experts, and another token shares on average one of its 2.
// CHECK: %[[INNER:.*]] = plan.buffer "experts.inner" on %[[CPU]] f32 cols 32 rows [2, 0]
// CHECK: plan.inst experts_gate_up {{.*}} ["experts_gate_up_avx512", "gemm_q4_k_avx512", "gemm_q4_k_avx512"] (act = %[[A8]], gate = %[[UP:.*]], up = %[[UP]], offsets = %[[OFFSETS]], slots = %[[SLOTS]], out = %[[INNER]]) {top_k = 2, activation = 0} {{.*}} work {token_ops = 6.579200e+04, first_bytes = 1.843200e+04, again = 5.000000e-01}
// CHECK: %[[INNERA8:.*]] = plan.buffer "experts.inner.a8" on %[[CPU]] a8 cols 32 rows [2, 0]
// CHECK: plan.inst quantize {{.*}} (x = %[[INNER]], out = %[[INNERA8]])
// CHECK: plan.inst experts_linear {{.*}} (act = %[[INNERA8]], {{.*}}, out = %[[Y:.*]]) {top_k = 2, act_per_token = 0}
// CHECK: plan.inst experts_combine {{.*}} (y = %[[Y]], weights = %[[MIX]], out = %[[X]]) {top_k = 2, accumulate = 1, experts = 0, begin = 0, count = 0}
// CHECK: plan.bind input %[[IN]] output %[[X]]
func.func @decode(%t: tensor<?xi32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %embd = moe.weight_ref @token_embd.weight : tensor<512x256x!moe.q4_k>
  %n = moe.weight_ref @attn_norm.weight : tensor<256xf32>
  %wq = moe.weight_ref @attn_q.weight : tensor<24x256x!moe.q4_k>
  %wkva = moe.weight_ref @attn_kv_a_mqa.weight : tensor<36x256x!moe.q4_k>
  %nkv = moe.weight_ref @attn_kv_a_norm.weight : tensor<32xf32>
  %wo = moe.weight_ref @attn_output.weight : tensor<256x12xf32>
  %wr = moe.weight_ref @ffn_gate_inp.weight : tensor<4x256xf32>
  %up = moe.weight_ref @ffn_up_exps.weight : tensor<4x32x256x!moe.q4_k>
  %down = moe.weight_ref @ffn_down_exps.weight : tensor<4x256x32x!moe.q8_0>
  %wk = moe.weight_ref @attn_kv_b.weight.keys : tensor<2x8x32xbf16>
  %wv = moe.weight_ref @attn_kv_b.weight.values : tensor<2x6x32xbf16>
  %x = moe.embedding %t, %embd {moe.label = #moe.label<"token_embd">, moe.device = "cpu0", moe.reason = "Few rows are read."} : (tensor<?xi32>, tensor<512x256x!moe.q4_k>) -> tensor<?x256xf32>
  %h = moe.rms_norm %x, %n {eps = 1.0e-6, moe.label = #moe.label<"attn_norm">, moe.device = "cpu0"} : tensor<?x256xf32>, tensor<256xf32>
  %q = moe.linear %h, %wq {moe.label = #moe.label<"attn_q">, moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<24x256x!moe.q4_k>) -> tensor<?x24xf32>
  %qr = moe.rope %q {heads = 2, offset = 8, rope = #rope, moe.label = #moe.label<"attn_q_rope">, moe.device = "cpu0"} : tensor<?x24xf32>
  %kva = moe.linear %h, %wkva {moe.label = #moe.label<"attn_kv_a">, moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<36x256x!moe.q4_k>) -> tensor<?x36xf32>
  %kv = moe.mla_latent %kva, %nkv {layer = 0, eps = 1.0e-6, rope = #rope, moe.label = #moe.label<"attn_kv">, moe.device = "cpu0"} : (tensor<?x36xf32>, tensor<32xf32>) -> !moe.kv<36>
  %ql = moe.absorb_query %qr, %wk {heads = 2, nope = 8, rope = 4, latent = 32, moe.label = #moe.label<"attn">, moe.device = "cpu0"} : (tensor<?x24xf32>, tensor<2x8x32xbf16>) -> tensor<?x72xf32>
  %ol = moe.latent_attention %ql, %kv {heads = 2, latent = 32, rope = 4, scale = 0.5, moe.label = #moe.label<"attn">, moe.device = "cpu0"} : (tensor<?x72xf32>, !moe.kv<36>) -> tensor<?x64xf32>
  %o = moe.expand_value %ol, %wv {heads = 2, latent = 32, value = 6, moe.label = #moe.label<"attn">, moe.device = "cpu0"} : (tensor<?x64xf32>, tensor<2x6x32xbf16>) -> tensor<?x12xf32>
  %y = moe.linear %o, %wo residual %x {moe.label = #moe.label<"attn_output">, moe.device = "cpu0"} : (tensor<?x12xf32>, tensor<256x12xf32>, tensor<?x256xf32>) -> tensor<?x256xf32>
  %ids, %mix = moe.router %y, %wr {top_k = 2, scoring = #moe.scoring<sigmoid>, normalize, scale = 2.5, moe.label = #moe.label<"router">, moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<4x256xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  %r = moe.experts %h, %ids, %mix, %up, %up, %down residual %y {fused, moe.label = #moe.label<"experts">, moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<4x32x256x!moe.q4_k>, tensor<4x32x256x!moe.q4_k>, tensor<4x256x32x!moe.q8_0>, tensor<?x256xf32>) -> tensor<?x256xf32>
  return %r : tensor<?x256xf32>
}

// The same layer where a long step shares the decompression. The argument
// belongs to the caller: the sum is an instruction of its own.
// CHECK-LABEL: plan.phase "prefill" tokens 2 to 8
// CHECK: %[[IN:.*]] = plan.buffer "input" on %[[CPU]] f32 cols 256 rows [1, 0]{{$}}
// CHECK: plan.inst rope_table {{.*}} (inv_freq = %[[FREQ]], out = %[[TABLE:.*]])
// CHECK: plan.inst mla_latent {{.*}} table = %[[TABLE]], kv = %[[KV]])
// Each row of the cache is decompressed.
// CHECK: plan.inst mla_attention {{.*}} (q = %{{.*}}, kv = %[[KV]], wk = %[[WK]], wv = %[[WV]], out = %[[O:.*]]) {heads = 2, nope = 8, rope = 4, latent = 32, value = 6, scale = 5.000000e-01} {{.*}} work {seen_ops = 8.000000e+01, row_ops = 1.792000e+03, first_bytes = 1.792000e+03}
// CHECK: plan.inst linear {{.*}} (act = %[[O]], w = %{{.*}}, out = %[[Y:.*]]) {accumulate = 0}
// CHECK: plan.inst add {{.*}} (x = %[[Y]], y = %[[IN]], out = %[[Y]])
// CHECK: plan.bind input %[[IN]] output %[[Y]]
func.func @prefill(%h: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"prefill", min_tokens = 2, max_tokens = 8, context = 64>} {
  %wq = moe.weight_ref @attn_q.weight : tensor<24x256x!moe.q4_k>
  %wkva = moe.weight_ref @attn_kv_a_mqa.weight : tensor<36x256x!moe.q4_k>
  %nkv = moe.weight_ref @attn_kv_a_norm.weight : tensor<32xf32>
  %wo = moe.weight_ref @attn_output.weight : tensor<256x12xf32>
  %wk = moe.weight_ref @attn_kv_b.weight.keys : tensor<2x8x32xbf16>
  %wv = moe.weight_ref @attn_kv_b.weight.values : tensor<2x6x32xbf16>
  %q = moe.linear %h, %wq {moe.label = #moe.label<"attn_q">, moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<24x256x!moe.q4_k>) -> tensor<?x24xf32>
  %kva = moe.linear %h, %wkva {moe.label = #moe.label<"attn_kv_a">, moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<36x256x!moe.q4_k>) -> tensor<?x36xf32>
  %kv = moe.mla_latent %kva, %nkv {layer = 0, eps = 1.0e-6, rope = #rope, moe.label = #moe.label<"attn_kv">, moe.device = "cpu0"} : (tensor<?x36xf32>, tensor<32xf32>) -> !moe.kv<36>
  %o = moe.mla_attention %q, %kv, %wk, %wv {heads = 2, nope = 8, rope = 4, latent = 32, value = 6, scale = 0.5, moe.label = #moe.label<"attn">, moe.device = "cpu0"} : (tensor<?x24xf32>, !moe.kv<36>, tensor<2x8x32xbf16>, tensor<2x6x32xbf16>) -> tensor<?x12xf32>
  %y = moe.linear %o, %wo residual %h {moe.label = #moe.label<"attn_output">, moe.device = "cpu0"} : (tensor<?x12xf32>, tensor<256x12xf32>, tensor<?x256xf32>) -> tensor<?x256xf32>
  return %y : tensor<?x256xf32>
}
}
