// RUN: moe-opt %s -moe-apply-rules='place=*=gpu0,blk.*.ffn_experts=cpu0,blk.*.ffn_experts=gpu0:3' -moe-place-devices -moe-insert-transfers -moe-select-kernels='weights=reference' -moe-lower-to-plan | FileCheck %s

// Each device has a view of the file's tensor that begins at its own experts.
// CHECK-DAG: %[[UP0:.*]] = plan.weight "up.0-2" in %{{.*}} at 4096 : 3x32x64xF32 strides [8192, 256]
// CHECK-DAG: %[[UP1:.*]] = plan.weight "up.3-7" in %{{.*}} at 28672 : 5x32x64xF32 strides [8192, 256]
// CHECK-NOT: plan.weight "up"

// Each device groups the router's choice for itself.
// CHECK: plan.inst router on %[[GPU:.*]].compute
// CHECK-NOT: ids.to_cpu0.offsets
// CHECK: %[[OFFSETS:.*]] = plan.buffer "blk.0.ffn_experts.0-2.offsets" on %gpu0 i32 cols 4 rows [0, 1]
// CHECK: plan.inst expert_group on %gpu0.compute {{.*}} {experts = 8, top_k = 4, begin = 0, count = 3}
// CHECK: plan.inst experts_combine on %gpu0.compute {{.*}} ids = {{.*}} {top_k = 4, accumulate = 0, experts = 8, begin = 0, count = 3}
// CHECK: plan.inst expert_group on %cpu0.compute {{.*}} {experts = 8, top_k = 4, begin = 3, count = 5}
// CHECK: plan.inst experts_combine on %cpu0.compute {{.*}} {top_k = 4, accumulate = 0, experts = 8, begin = 3, count = 5}
// CHECK: plan.inst add on %gpu0.compute

#target = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 8388608 : i64, read_bps = 9.3e11 : f64, int8_ops = 3.0e14 : f64, float_ops = 1.5e14 : f64, link_bps = 2.5e10 : f64, link_latency = 8.0e-6 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 67108864 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e12 : f64}]}

module attributes {moe.target = #target, moe.model = {architecture = "test", name = "t", hash = "h", hidden = 64 : i64, vocab = 8 : i64, layers = 1 : i64, experts = 8 : i64, experts_used = 4 : i64, parameters = 1 : i64}, moe.files = [{path = "m", bytes = 1000000 : i64, header_bytes = 8 : i64, header_hash = "0123456789abcdef0123456789abcdef"}]} {
moe.weight @r : tensor<8x64xf32> = #moe.tensor<file = 0, offset = 64>
moe.weight @up : tensor<8x32x64xf32> = #moe.tensor<file = 0, offset = 4096>
moe.weight @down : tensor<8x64x32xf32> = #moe.tensor<file = 0, offset = 69632>
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %wr = moe.weight_ref @r : tensor<8x64xf32>
  %up = moe.weight_ref @up : tensor<8x32x64xf32>
  %down = moe.weight_ref @down : tensor<8x64x32xf32>
  %ids, %mix = moe.router %x, %wr {moe.label = #moe.label<"router", layer = 0>, scoring = #moe.scoring<softmax>, top_k = 4 : i64} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x4xi32>, tensor<?x4xf32>)
  %y = moe.experts %x, %ids, %mix, %up, %up, %down {moe.label = #moe.label<"ffn_experts", layer = 0>} : (tensor<?x64xf32>, tensor<?x4xi32>, tensor<?x4xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
}
