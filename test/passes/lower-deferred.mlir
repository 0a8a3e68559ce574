// RUN: moe-opt %s -moe-defer-experts='defer-experts=1' -moe-insert-transfers -moe-select-kernels='weights=reference' -moe-lower-to-plan | FileCheck %s
// RUN: moe-opt %s -moe-defer-experts='defer-experts=1' -moe-insert-transfers -moe-select-kernels='weights=reference' -moe-plan | FileCheck %s --check-prefix=ORDER

// Ids and weights are copied once; each part then has its own lists of slots.
// CHECK-LABEL: plan.phase "decode"
// CHECK: plan.inst router on %gpu0.compute
// CHECK-NOT: expert_group on %gpu0
// CHECK: plan.inst split_choices on %cpu0.compute ["split_choices_avx2"] (ids = %{{.*}}, weights = %{{.*}}, first_ids = %[[A:[^ ,]*]], first_weights = %[[WA:[^ ,]*]], last_ids = %[[B:[^ ,]*]], last_weights = %[[WB:[^ ,]*]]) {experts = 8, top_k = 3, last = 1}
// CHECK: plan.inst expert_group on %cpu0.compute {{.*}} (ids = %[[A]], offsets = %[[OA:[^ ,]*]], slots = %[[SA:[^ ,]*]]) {experts = 8, top_k = 2, begin = 0, count = 0}
// CHECK: plan.inst expert_group on %cpu0.compute {{.*}} (ids = %[[B]], offsets = %[[OB:[^ ,]*]], slots = %[[SB:[^ ,]*]]) {experts = 8, top_k = 1, begin = 0, count = 0}
// CHECK: plan.inst experts_linear {{.*}} offsets = %[[OA]], slots = %[[SA]], {{.*}} {top_k = 2, act_per_token = 1}
// CHECK: plan.inst experts_combine {{.*}}weights = %[[WA]], {{.*}}top_k = 2
// CHECK: plan.inst experts_linear {{.*}} offsets = %[[OB]], slots = %[[SB]], {{.*}} {top_k = 1, act_per_token = 1} {{.*}} {plan.late}
// CHECK: plan.inst experts_combine {{.*}}weights = %[[WB]], {{.*}}top_k = 1

// The CPU signals the results that the GPU waits for before it computes the
// rest.
// ORDER-LABEL: plan.phase "decode"
// ORDER-NOT: top_k = 1, act_per_token
// ORDER: %[[DONE:.*]] = plan.inst experts_combine on %cpu0.compute {{.*}}top_k = 2, {{.*}}signals for
// ORDER: plan.inst {{(copy|add)}} on %gpu0.compute {{.*}}after %[[DONE]]
// ORDER: plan.inst router on %gpu0.compute
// ORDER-NOT: plan.late

#target = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 8388608 : i64, read_bps = 9.3e11 : f64, int8_ops = 3.0e14 : f64, float_ops = 1.5e14 : f64, link_bps = 2.5e10 : f64, link_latency = 8.0e-6 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 67108864 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}

module attributes {moe.target = #target, moe.model = {architecture = "test", name = "t", hash = "h", hidden = 64 : i64, vocab = 8 : i64, layers = 2 : i64, experts = 8 : i64, experts_used = 3 : i64, parameters = 1 : i64}, moe.files = [{path = "m", bytes = 1000000 : i64, header_bytes = 8 : i64, header_hash = "0123456789abcdef0123456789abcdef"}]} {
moe.weight @blk.0.ffn_gate_inp.weight : tensor<8x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_gate_exps.weight : tensor<8x32x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_up_exps.weight : tensor<8x32x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_down_exps.weight : tensor<8x64x32xf32> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %wr = moe.weight_ref @blk.0.ffn_gate_inp.weight : tensor<8x64xf32>
  %gate = moe.weight_ref @blk.0.ffn_gate_exps.weight : tensor<8x32x64xf32>
  %up = moe.weight_ref @blk.0.ffn_up_exps.weight : tensor<8x32x64xf32>
  %down = moe.weight_ref @blk.0.ffn_down_exps.weight : tensor<8x64x32xf32>
  %i0, %w0 = moe.router %x, %wr {top_k = 3, scoring = #moe.scoring<softmax>, moe.device = "gpu0", moe.label = #moe.label<"router", layer = 0>} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  %e0 = moe.experts %x, %i0, %w0, %gate, %up, %down {moe.device = "cpu0", moe.label = #moe.label<"ffn_experts", layer = 0>} : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  %x0 = moe.add %x, %e0 {moe.device = "gpu0", moe.label = #moe.label<"ffn_add", layer = 0>} : tensor<?x64xf32>
  %i1, %w1 = moe.router %x0, %wr {top_k = 3, scoring = #moe.scoring<softmax>, moe.device = "gpu0", moe.label = #moe.label<"router", layer = 1>} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  %e1 = moe.experts %x0, %i1, %w1, %gate, %up, %down {moe.device = "cpu0", moe.label = #moe.label<"ffn_experts", layer = 1>} : (tensor<?x64xf32>, tensor<?x3xi32>, tensor<?x3xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  %x1 = moe.add %x0, %e1 {moe.device = "gpu0", moe.label = #moe.label<"ffn_add", layer = 1>} : tensor<?x64xf32>
  return %x1 : tensor<?x64xf32>
}
}
