// RUN: moe-opt %s -moe-apply-rules='place=*=gpu0,blk.*.ffn_experts=cpu0,blk.*.ffn_experts=gpu0:3' -moe-place-devices -moe-fuse -moe-insert-transfers -moe-select-kernels='weights=reference' -moe-lower-to-plan | FileCheck %s

// Scales of experts prevent fusing gate and up, though there is a fused kernel.
// Each device has the scales of its experts.
// CHECK-DAG: %[[S0:.*]] = plan.weight "scale.0" in %{{.*}} at 2048 : 1x3x1xF32
// CHECK-DAG: %[[S1:.*]] = plan.weight "scale.3" in %{{.*}} at 2060 : 1x5x1xF32
// CHECK-NOT: gate_up
// CHECK: plan.inst experts_linear on %gpu0.compute {{.*}}out = %[[G:[^ ,)]*]])
// CHECK: plan.inst experts_linear on %gpu0.compute {{.*}}out = %[[U:[^ ,)]*]])
// CHECK: plan.inst experts_activation_mul on %gpu0.compute ["experts_activation_mul_cuda"] (gate = %[[G]], up = %[[U]], up_scale = %[[S0]], offsets = %{{[^ ]*}}, slots = %{{[^ ]*}}, out = %[[G]]) {experts = 3, top_k = 4, activation = 0}
// CHECK: plan.inst experts_linear on %gpu0.compute {{.*}} (act = %[[G]],
// CHECK: plan.inst experts_activation_mul on %cpu0.compute ["experts_activation_mul_avx512"] {{.*}}up_scale = %[[S1]], {{.*}}{experts = 5, top_k = 4, activation = 0}

#target = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 8388608 : i64, read_bps = 9.3e11 : f64, int8_ops = 3.0e14 : f64, float_ops = 1.5e14 : f64, link_bps = 2.5e10 : f64, link_latency = 8.0e-6 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 67108864 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}

module attributes {moe.target = #target, moe.model = {architecture = "test", name = "t", hash = "h", hidden = 64 : i64, vocab = 8 : i64, layers = 1 : i64, experts = 8 : i64, experts_used = 4 : i64, parameters = 1 : i64}, moe.files = [{path = "m", bytes = 1000000 : i64, header_bytes = 8 : i64, header_hash = "0123456789abcdef0123456789abcdef"}]} {
moe.weight @r : tensor<8x64xf32> = #moe.tensor<file = 0, offset = 64>
moe.weight @up : tensor<8x32x64xf32> = #moe.tensor<file = 0, offset = 4096>
moe.weight @down : tensor<8x64x32xf32> = #moe.tensor<file = 0, offset = 69632>
moe.weight @scale : tensor<8x1xf32> = #moe.tensor<file = 0, offset = 2048>
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %wr = moe.weight_ref @r : tensor<8x64xf32>
  %up = moe.weight_ref @up : tensor<8x32x64xf32>
  %down = moe.weight_ref @down : tensor<8x64x32xf32>
  %scale = moe.weight_ref @scale : tensor<8x1xf32>
  %ids, %mix = moe.router %x, %wr {moe.label = #moe.label<"router", layer = 0>, scoring = #moe.scoring<softmax>, top_k = 4 : i64} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x4xi32>, tensor<?x4xf32>)
  %y = moe.experts %x, %ids, %mix, %up, %up, %down up_scale %scale {moe.label = #moe.label<"ffn_experts", layer = 0>} : (tensor<?x64xf32>, tensor<?x4xi32>, tensor<?x4xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>, tensor<8x1xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
}
