// RUN: moe-opt %s -moe-fuse | FileCheck %s

#hybrid = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", arch = 89 : i64, memory_bytes = 25769803776 : i64, read_bps = 9.3e11 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 549755813888 : i64, read_bps = 2.2e11 : f64}]}

module attributes {moe.target = #hybrid} {
moe.weight @blk.0.attn_output.weight : tensor<64x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_gate_exps.weight : tensor<8x32x64x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_down_exps.weight : tensor<8x64x32x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_gate_shexp.weight : tensor<32x64x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_down_shexp.weight : tensor<64x32x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_norm.weight : tensor<64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @w : tensor<64x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @n : tensor<64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @q4 : tensor<256x256x!moe.q4_k> = #moe.tensor<file = 0, offset = 0>
moe.weight @q8 : tensor<256x256x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @f32 : tensor<256x256xf32> = #moe.tensor<file = 0, offset = 0>

// The sum is fused into the projection, on whichever side of the sum it is.
// CHECK-LABEL: func.func @residual(
// CHECK-SAME: %[[X:.*]]: tensor<?x64xf32>, %[[H:.*]]: tensor<?x64xf32>
func.func @residual(%x: tensor<?x64xf32>, %h: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %w = moe.weight_ref @blk.0.attn_output.weight : tensor<64x64xf32>
  %o = moe.linear %x, %w {moe.label = #moe.label<"attn_output", layer = 0>} : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  // CHECK: %[[Y:.*]] = moe.linear %[[X]], %{{.*}} residual %[[H]] {moe.label = #moe.label<"attn_output", layer = 0>, moe.reason = "Adds the input as it writes its result."}
  // CHECK-NOT: moe.add
  %s = moe.add %h, %o : tensor<?x64xf32>
  // CHECK: return %[[Y]]
  return %s : tensor<?x64xf32>
}

// Routed + shared + residual becomes a chain without any sum: the residual
// reaches the routed experts, whose result the shared expert adds.
// CHECK-LABEL: func.func @chain(
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<?x64xf32>, %[[H:[a-z0-9]*]]: tensor<?x64xf32>
func.func @chain(%x: tensor<?x64xf32>, %h: tensor<?x64xf32>, %ids: tensor<?x3xi32>, %p: tensor<?x3xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %ge = moe.weight_ref @blk.0.ffn_gate_exps.weight : tensor<8x32x64x!moe.q8_0>
  %de = moe.weight_ref @blk.0.ffn_down_exps.weight : tensor<8x64x32x!moe.q8_0>
  %gs = moe.weight_ref @blk.0.ffn_gate_shexp.weight : tensor<32x64x!moe.q8_0>
  %ds = moe.weight_ref @blk.0.ffn_down_shexp.weight : tensor<64x32x!moe.q8_0>
  // CHECK: %[[R:.*]] = moe.experts %[[X]], {{.*}} residual %[[H]] {fused,
  %r = moe.experts %x, %ids, %p, %ge, %ge, %de : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x64x!moe.q8_0>, tensor<8x32x64x!moe.q8_0>, tensor<8x64x32x!moe.q8_0>) -> tensor<?x64xf32>
  // CHECK: %[[S:.*]] = moe.ffn %[[X]], {{.*}} residual %[[R]] {fused,
  %s = moe.ffn %x, %gs, %gs, %ds : (tensor<?x64xf32>, tensor<32x64x!moe.q8_0>, tensor<32x64x!moe.q8_0>, tensor<64x32x!moe.q8_0>) -> tensor<?x64xf32>
  %rs = moe.add %r, %s : tensor<?x64xf32>
  %y = moe.add %rs, %h : tensor<?x64xf32>
  // CHECK-NOT: moe.add
  // CHECK: return %[[S]]
  return %y : tensor<?x64xf32>
}

// Experts on the host, the rest on the GPU: the shared expert takes the
// residual and does not wait for the host; one sum joins them.
// CHECK-LABEL: func.func @hybrid(
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<?x64xf32>
func.func @hybrid(%x: tensor<?x64xf32>, %ids: tensor<?x3xi32>, %p: tensor<?x3xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %n = moe.weight_ref @blk.0.ffn_norm.weight : tensor<64xf32>
  %ge = moe.weight_ref @blk.0.ffn_gate_exps.weight : tensor<8x32x64x!moe.q8_0>
  %de = moe.weight_ref @blk.0.ffn_down_exps.weight : tensor<8x64x32x!moe.q8_0>
  %gs = moe.weight_ref @blk.0.ffn_gate_shexp.weight : tensor<32x64x!moe.q8_0>
  %ds = moe.weight_ref @blk.0.ffn_down_shexp.weight : tensor<64x32x!moe.q8_0>
  // CHECK: %[[H:.*]] = moe.rms_norm
  %h = moe.rms_norm %x, %n {eps = 1.0e-6, moe.device = "gpu0"} : tensor<?x64xf32>, tensor<64xf32>
  // CHECK: %[[R:.*]] = moe.experts
  // CHECK-NOT: residual
  // CHECK-SAME: {fused, moe.device = "cpu0"}
  %r = moe.experts %h, %ids, %p, %ge, %ge, %de {moe.device = "cpu0"} : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x64x!moe.q8_0>, tensor<8x32x64x!moe.q8_0>, tensor<8x64x32x!moe.q8_0>) -> tensor<?x64xf32>
  // CHECK: %[[S:.*]] = moe.ffn {{.*}} residual %[[H]] {fused,
  %s = moe.ffn %h, %gs, %gs, %ds {moe.device = "gpu0"} : (tensor<?x64xf32>, tensor<32x64x!moe.q8_0>, tensor<32x64x!moe.q8_0>, tensor<64x32x!moe.q8_0>) -> tensor<?x64xf32>
  %rs = moe.add %r, %s {moe.device = "gpu0"} : tensor<?x64xf32>
  // CHECK: %[[Y:.*]] = moe.add %[[R]], %[[S]]
  %y = moe.add %rs, %h {moe.device = "gpu0"} : tensor<?x64xf32>
  // CHECK: return %[[Y]]
  return %y : tensor<?x64xf32>
}

// A product with another reader is not changed, nor one that is computed before
// the value to add.
// CHECK-LABEL: func.func @kept(
func.func @kept(%x: tensor<?x64xf32>) -> (tensor<?x64xf32>, tensor<?x64xf32>) attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %w = moe.weight_ref @w : tensor<64x64xf32>
  %n = moe.weight_ref @n : tensor<64xf32>
  %a = moe.linear %x, %w : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  %b = moe.rms_norm %a, %n {eps = 1.0e-6} : tensor<?x64xf32>, tensor<64xf32>
  // CHECK: moe.add
  %s = moe.add %a, %b : tensor<?x64xf32>
  %c = moe.linear %b, %w : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  %d = moe.rms_norm %b, %n {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xf32>
  // CHECK: moe.add
  %t = moe.add %c, %d : tensor<?x64xf32>
  return %s, %t : tensor<?x64xf32>, tensor<?x64xf32>
}

// Two formats fuse if their gemms read one encoding (Q4_K and Q8_0: A8), not
// if one reads A8 and the other F32; the kernel then runs two gemms.
// CHECK-LABEL: func.func @formats(
func.func @formats(%x: tensor<?x256xf32>) -> (tensor<?x256xf32>, tensor<?x256xf32>) attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %q4 = moe.weight_ref @q4 : tensor<256x256x!moe.q4_k>
  %q8 = moe.weight_ref @q8 : tensor<256x256x!moe.q8_0>
  %f32 = moe.weight_ref @f32 : tensor<256x256xf32>
  // CHECK: moe.ffn {{.*}} {fused} :
  %a = moe.ffn %x, %q4, %q8, %q8 : (tensor<?x256xf32>, tensor<256x256x!moe.q4_k>, tensor<256x256x!moe.q8_0>, tensor<256x256x!moe.q8_0>) -> tensor<?x256xf32>
  // CHECK: moe.ffn
  // CHECK-NOT: fused
  %b = moe.ffn %x, %q4, %f32, %q8 : (tensor<?x256xf32>, tensor<256x256x!moe.q4_k>, tensor<256x256xf32>, tensor<256x256x!moe.q8_0>) -> tensor<?x256xf32>
  return %a, %b : tensor<?x256xf32>, tensor<?x256xf32>
}

// A GPU kernel needs the same format for both.
// CHECK-LABEL: func.func @formats_on_a_gpu(
func.func @formats_on_a_gpu(%x: tensor<?x256xf32>) -> (tensor<?x256xf32>, tensor<?x256xf32>) attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %q4 = moe.weight_ref @q4 : tensor<256x256x!moe.q4_k>
  %q8 = moe.weight_ref @q8 : tensor<256x256x!moe.q8_0>
  // CHECK: moe.ffn {{.*}} {fused, moe.device = "gpu0"} :
  %a = moe.ffn %x, %q4, %q4, %q8 {moe.device = "gpu0"} : (tensor<?x256xf32>, tensor<256x256x!moe.q4_k>, tensor<256x256x!moe.q4_k>, tensor<256x256x!moe.q8_0>) -> tensor<?x256xf32>
  // CHECK: moe.ffn {{.*}} {moe.device = "gpu0"} :
  %b = moe.ffn %x, %q4, %q8, %q8 {moe.device = "gpu0"} : (tensor<?x256xf32>, tensor<256x256x!moe.q4_k>, tensor<256x256x!moe.q8_0>, tensor<256x256x!moe.q8_0>) -> tensor<?x256xf32>
  return %a, %b : tensor<?x256xf32>, tensor<?x256xf32>
}
}
