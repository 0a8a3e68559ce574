// RUN: moe-opt %s -moe-select-kernels -moe-lower-to-plan | FileCheck %s

// The router is on the GPU, its experts are on the host: the groups of ids are
// copied with the ids. Arguments and results of a phase are on the host.

#hybrid = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", arch = 89 : i64, cores = 128 : i64, memory_bytes = 1000000 : i64, read_bps = 1.0e12 : f64, link_bps = 1.0e9 : f64, link_latency = 1.0e-5 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000000 : i64, read_bps = 1.0e11 : f64}]}

module attributes {
  moe.target = #hybrid,
  moe.model = {architecture = "a", name = "t", hash = "h", hidden = 64 : i64, vocab = 8 : i64, layers = 1 : i64, experts = 4 : i64, experts_used = 2 : i64, parameters = 1 : i64},
  moe.files = [{path = "m", bytes = 1000000 : i64, header_bytes = 8 : i64, header_hash = "0123456789abcdef0123456789abcdef"}]} {
moe.weight @r : tensor<4x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @up : tensor<4x32x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @down : tensor<4x64x32xf32> = #moe.tensor<file = 0, offset = 0>

// Devices in the order of their first use; the ISA is the best that a kernel needs.
// CHECK: %[[CPU:.*]] = plan.device "cpu0" cpu isa "avx512"
// CHECK: %[[GPU:.*]] = plan.device "gpu0" cuda isa "cuda" memory 1000000 {arch = 89 : i32, multiprocessors = 128 : i32}
// 256 bytes at 1 GB/s and 10 us of latency.
// CHECK: plan.explain "x.to_gpu0" phase "logits" on "gpu0" kernel "copy_cuda" {{.*}} activations 2.560000e+02 {{.*}} seconds 1.0256{{.*}}E-5

// CHECK-LABEL: plan.phase "logits"
// CHECK: %[[IN:.*]] = plan.buffer "input" on %[[CPU]] f32 cols 64
// CHECK: %[[X:.*]] = plan.buffer "x.to_gpu0" on %[[GPU]] f32 cols 64 rows [1, 0]
// Copies of few rows run on the compute queue.
// CHECK: plan.inst copy on %[[GPU]].compute ["copy_cuda"] (x = %[[IN]], out = %[[X]])
// CHECK: plan.inst router on %[[GPU]].compute {{.*}} ids = %[[IDS:.*]], weights = %[[MIX:.*]])
// CHECK: plan.inst expert_group on %[[GPU]].compute {{.*}} (ids = %[[IDS]], offsets = %[[OFFSETS:.*]], slots = %[[SLOTS:.*]])
// CHECK: %[[HOST_IDS:.*]] = plan.buffer "ids.to_cpu0" on %[[CPU]] i32 cols 2 rows [1, 0]
// CHECK: plan.inst copy on %[[GPU]].compute ["copy_cuda"] (x = %[[IDS]], out = %[[HOST_IDS]])
// CHECK: %[[HOST_OFFSETS:.*]] = plan.buffer "ids.to_cpu0.offsets" on %[[CPU]] i32 cols 5 rows [0, 1]
// CHECK: plan.inst copy {{.*}} (x = %[[OFFSETS]], out = %[[HOST_OFFSETS]])
// CHECK: %[[HOST_SLOTS:.*]] = plan.buffer "ids.to_cpu0.slots" on %[[CPU]] i32 cols 2 rows [1, 0]
// CHECK: plan.inst copy {{.*}} (x = %[[SLOTS]], out = %[[HOST_SLOTS]])
// CHECK: plan.inst copy {{.*}} (x = %[[MIX]], out = %[[HOST_MIX:.*]])
// CHECK: plan.inst experts_gate_up on %[[CPU]].compute {{.*}} (act = %[[IN]], {{.*}} offsets = %[[HOST_OFFSETS]], slots = %[[HOST_SLOTS]],
// CHECK: plan.inst experts_combine on %[[CPU]].compute {{.*}} weights = %[[HOST_MIX]], out = %[[OUT:.*]]) {top_k = 2, accumulate = 0, experts = 0, begin = 0, count = 0}
// CHECK: plan.bind input %[[IN]] output %[[OUT]]
func.func @logits(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"logits", min_tokens = 1, max_tokens = 4, context = 64>} {
  %wr = moe.weight_ref @r : tensor<4x64xf32>
  %up = moe.weight_ref @up : tensor<4x32x64xf32>
  %down = moe.weight_ref @down : tensor<4x64x32xf32>
  %g = moe.transfer %x from "cpu0" to "gpu0" {moe.label = #moe.label<"x.to_gpu0">, moe.device = "gpu0"} : tensor<?x64xf32>
  %ids, %mix = moe.router %g, %wr {top_k = 2, scoring = #moe.scoring<softmax>, moe.label = #moe.label<"router">, moe.device = "gpu0"} : (tensor<?x64xf32>, tensor<4x64xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  %hids = moe.transfer %ids from "gpu0" to "cpu0" {moe.label = #moe.label<"ids.to_cpu0">, moe.device = "gpu0"} : tensor<?x2xi32>
  %hmix = moe.transfer %mix from "gpu0" to "cpu0" {moe.label = #moe.label<"mix.to_cpu0">, moe.device = "gpu0"} : tensor<?x2xf32>
  %y = moe.experts %x, %hids, %hmix, %up, %up, %down {fused, moe.label = #moe.label<"experts">, moe.device = "cpu0"} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<4x32x64xf32>, tensor<4x32x64xf32>, tensor<4x64x32xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
}
