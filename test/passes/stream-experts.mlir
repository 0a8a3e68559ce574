// RUN: moe-opt %s -moe-stream-experts='stream-experts=100' | FileCheck %s
// RUN: moe-opt %s -moe-stream-experts='stream-experts=2' | FileCheck %s --check-prefix=ALL
// RUN: moe-opt %s -moe-stream-experts='stream-experts=0' | FileCheck %s --check-prefix=NONE
// RUN: moe-opt %s -moe-stream-experts='stream-experts=600' | FileCheck %s --check-prefix=NONE
// RUN: moe-opt %s -moe-stream-experts | FileCheck %s --check-prefix=AUTO

// In prefill steps from some length on, the host's experts are on the GPU of
// the router; other weights and decode do not change.
// CHECK: moe.notes = ["experts of 1 layer are streamed to the GPU in steps of 100 tokens or more, through slots of {{.*}}: one of 512 tokens takes 1.0 ms, without that 2.0 ms; it is predicted to pay from 60 tokens"]
// CHECK-LABEL: func.func @decode
// CHECK: moe.experts {{.*}}moe.device = "cpu0"
// CHECK-LABEL: func.func @prefill
// CHECK-SAME: #moe.phase<"prefill", min_tokens = 2, max_tokens = 99,
// CHECK: moe.experts {{.*}}moe.device = "cpu0"
// CHECK-NOT: moe.streamed
// CHECK-LABEL: func.func @streamed_prefill
// CHECK-SAME: #moe.phase<"streamed_prefill", min_tokens = 100, max_tokens = 512,
// CHECK: moe.experts {{.*}}moe.device = "gpu0", {{.*}}moe.reason = "On gpu0, which copies them from cpu0's memory in steps of 100 tokens or more.", moe.rejected = [#moe.rejected<device "cpu0" for "" seconds {{.*}} chosen "gpu0" seconds {{.*}}, "{{--stream-experts streams them from 100 tokens on}}">], moe.streamed

// If no step is shorter, there is no additional phase.
// ALL-LABEL: func.func @prefill
// ALL-SAME: min_tokens = 2, max_tokens = 512
// ALL: moe.experts {{.*}}moe.streamed
// ALL-NOT: @streamed_prefill

// NONE-NOT: streamed

// moe-place-devices has computed the crossover.
// AUTO: moe.notes = ["experts of 1 layer are streamed to the GPU in steps of 60 tokens or more
// AUTO: #moe.phase<"prefill", min_tokens = 2, max_tokens = 59,
// AUTO: #moe.phase<"streamed_prefill", min_tokens = 60

#target = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", arch = 89 : i64, cores = 128 : i64, memory_bytes = 8388608 : i64, read_bps = 9.3e11 : f64, int8_ops = 3.0e14 : f64, float_ops = 1.5e14 : f64, link_bps = 2.5e8 : f64, link_latency = 8.0e-6 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", cores = 4 : i64, memory_bytes = 67108864 : i64, read_bps = 2.2e11 : f64, int8_ops = 7.4e12 : f64, float_ops = 2.2e10 : f64}]}

module attributes {moe.target = #target, moe.streaming = #moe.streaming<from = 60, streamed = 1.0e-3, kept = 2.0e-3>, moe.model = {architecture = "test", name = "t", hash = "h", hidden = 64 : i64, vocab = 8 : i64, layers = 1 : i64, experts = 8 : i64, experts_used = 4 : i64, parameters = 1 : i64}, moe.files = [{path = "m", bytes = 1000000 : i64, header_bytes = 8 : i64, header_hash = "0123456789abcdef0123456789abcdef"}]} {
moe.weight @r : tensor<8x64xf32> = #moe.tensor<file = 0, offset = 64>
moe.weight @up : tensor<8x32x64xf32> = #moe.tensor<file = 0, offset = 4096>
moe.weight @down : tensor<8x64x32xf32> = #moe.tensor<file = 0, offset = 69632>
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 1024>} {
  %wr = moe.weight_ref @r : tensor<8x64xf32>
  %up = moe.weight_ref @up : tensor<8x32x64xf32>
  %down = moe.weight_ref @down : tensor<8x64x32xf32>
  %ids, %mix = moe.router %x, %wr {moe.device = "gpu0", moe.label = #moe.label<"router", layer = 0>, scoring = #moe.scoring<softmax>, top_k = 4 : i64} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x4xi32>, tensor<?x4xf32>)
  %y = moe.experts %x, %ids, %mix, %up, %up, %down {moe.device = "cpu0", moe.label = #moe.label<"ffn_experts", layer = 0>} : (tensor<?x64xf32>, tensor<?x4xi32>, tensor<?x4xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @prefill(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"prefill", min_tokens = 2, max_tokens = 512, context = 1024>} {
  %wr = moe.weight_ref @r : tensor<8x64xf32>
  %up = moe.weight_ref @up : tensor<8x32x64xf32>
  %down = moe.weight_ref @down : tensor<8x64x32xf32>
  %ids, %mix = moe.router %x, %wr {moe.device = "gpu0", moe.label = #moe.label<"router", layer = 0>, scoring = #moe.scoring<softmax>, top_k = 4 : i64} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x4xi32>, tensor<?x4xf32>)
  %y = moe.experts %x, %ids, %mix, %up, %up, %down {moe.device = "cpu0", moe.label = #moe.label<"ffn_experts", layer = 0>} : (tensor<?x64xf32>, tensor<?x4xi32>, tensor<?x4xf32>, tensor<8x32x64xf32>, tensor<8x32x64xf32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
}
