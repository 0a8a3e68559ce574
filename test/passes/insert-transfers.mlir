// RUN: moe-opt %s -moe-insert-transfers | FileCheck %s

#two = {name = "2x4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 1000 : i64, read_bps = 9.3e11 : f64},
  {name = "gpu1", kind = "cuda", isa = "cuda", memory_bytes = 1000 : i64, read_bps = 9.3e11 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000 : i64, read_bps = 2.2e11 : f64}]}

module attributes {moe.target = #two} {
moe.weight @token_embd.weight : tensor<100x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @output_norm.weight : tensor<64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @output.weight : tensor<100x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @blk.0.ffn_gate_inp.weight : tensor<8x64xf32> = #moe.tensor<file = 0, offset = 0>

// Token ids stay on the host. The embedding's rows are copied once for both
// readers, right after the embedding; the result is copied back.
// CHECK-LABEL: func.func @decode
func.func @decode(%tokens: tensor<?xi32>) -> tensor<?x64xf32> {
  %table = moe.weight_ref @token_embd.weight : tensor<100x64xf32>
  %n = moe.weight_ref @output_norm.weight : tensor<64xf32>
  // CHECK: %[[X:.*]] = moe.embedding %arg0
  %x = moe.embedding %tokens, %table {moe.device = "cpu0", moe.label = #moe.label<"token_embd">} : (tensor<?xi32>, tensor<100x64xf32>) -> tensor<?x64xf32>
  // CHECK-NEXT: %[[G:.*]] = moe.transfer %[[X]] from "cpu0" to "gpu0" {moe.device = "gpu0", moe.label = #moe.label<"token_embd.to_gpu0">, moe.reason = "Copies 256 B per token from cpu0 to gpu0."}
  // CHECK-NEXT: %[[A:.*]] = moe.rms_norm %[[G]], %{{.*}}
  %a = moe.rms_norm %x, %n {eps = 1.0e-6, moe.device = "gpu0"} : tensor<?x64xf32>, tensor<64xf32>
  // CHECK-NEXT: %[[S:.*]] = moe.add %[[G]], %[[A]]
  %s = moe.add %x, %a {moe.device = "gpu0", moe.label = #moe.label<"add", layer = 0>} : tensor<?x64xf32>
  // Between two GPUs, the receiving one copies.
  // CHECK-NEXT: moe.transfer %[[S]] from "gpu0" to "gpu1" {moe.device = "gpu1", moe.label = #moe.label<"add.to_gpu1", layer = 0>
  // CHECK-NEXT: %[[B:.*]] = moe.rms_norm
  %b = moe.rms_norm %s, %n {eps = 1.0e-6, moe.device = "gpu1"} : tensor<?x64xf32>, tensor<64xf32>
  // CHECK-NEXT: %[[R:.*]] = moe.transfer %[[B]] from "gpu1" to "cpu0" {moe.device = "gpu1"
  // CHECK-NEXT: return %[[R]]
  return %b : tensor<?x64xf32>
}

// An argument is copied at the top. Values on the reader's device and weights
// are not copied.
// CHECK-LABEL: func.func @logits
func.func @logits(%hidden: tensor<?x64xf32>) -> tensor<?x100xf32> {
  // CHECK-NEXT: %[[H:.*]] = moe.transfer %arg0 from "cpu0" to "gpu1" {moe.device = "gpu1", moe.label = #moe.label<"input.to_gpu1">
  // CHECK-NEXT: moe.weight
  %head = moe.weight_ref @output.weight : tensor<100x64xf32>
  // CHECK-NEXT: %[[Y:.*]] = moe.lm_head %[[H]]
  %y = moe.lm_head %hidden, %head {moe.device = "gpu1", moe.label = #moe.label<"output">} : (tensor<?x64xf32>, tensor<100x64xf32>) -> tensor<?x100xf32>
  // CHECK-NEXT: %[[R:.*]] = moe.transfer %[[Y]] from "gpu1" to "cpu0"
  // CHECK-NEXT: return %[[R]]
  return %y : tensor<?x100xf32>
}

// Integers are copied too: ids from a router on the GPU for experts on the
// host.
// CHECK-LABEL: func.func @ids
func.func @ids(%x: tensor<?x64xf32>) -> tensor<?x3xi32> {
  %wr = moe.weight_ref @blk.0.ffn_gate_inp.weight : tensor<8x64xf32>
  // CHECK: moe.transfer %arg0 from "cpu0" to "gpu0"
  %ids, %w = moe.router %x, %wr {top_k = 3, scoring = #moe.scoring<softmax>, moe.device = "gpu0"} : (tensor<?x64xf32>, tensor<8x64xf32>) -> (tensor<?x3xi32>, tensor<?x3xf32>)
  // CHECK: moe.transfer %{{.*}} from "gpu0" to "cpu0" {{.*}} : tensor<?x3xi32>
  return %ids : tensor<?x3xi32>
}
}
