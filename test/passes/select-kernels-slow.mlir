// RUN: moe-opt %s -split-input-file -moe-select-kernels | FileCheck %s

// A format with only a reference kernel gets a note that says what a token
// pays. Two matrices of 256 x 256 are 131072 products; a core computes 5e8 per
// second.

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", cores = 1 : i64, memory_bytes = 1000 : i64, read_bps = 2.5e8 : f64}]}
// CHECK: moe.notes = ["told before", "TQ1_0 has no fast kernel on cpu0 (avx512): 2 weights in it take 0.3 ms per token, while reading their bytes takes 0.1 ms; a model file in another format is faster"]
// CHECK: moe.linear {{.*}}linear_avx512(gemm_tq1_0_ref)
// CHECK: moe.linear {{.*}}linear_avx512(gemm_tq1_0_ref)
// CHECK: moe.linear {{.*}}linear_avx512(gemm_mxfp4_rows16_avx512)
// CHECK: moe.linear {{.*}}linear_avx512(gemm_iq2_xxs_rows16_avx512)
module attributes {moe.target = #xeon, moe.notes = ["told before"]} {
moe.weight @v : tensor<256x256x!moe.tq1_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @w : tensor<256x256x!moe.tq1_0> = #moe.tensor<file = 0, offset = 0>
moe.weight @m : tensor<256x256x!moe.mxfp4> = #moe.tensor<file = 0, offset = 0>
moe.weight @i : tensor<256x256x!moe.iq2_xxs> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %v = moe.weight_ref @v : tensor<256x256x!moe.tq1_0>
  %w = moe.weight_ref @w : tensor<256x256x!moe.tq1_0>
  %m = moe.weight_ref @m : tensor<256x256x!moe.mxfp4>
  %i = moe.weight_ref @i : tensor<256x256x!moe.iq2_xxs>
  %a = moe.linear %x, %v {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256x!moe.tq1_0>) -> tensor<?x256xf32>
  %b = moe.linear %a, %w {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256x!moe.tq1_0>) -> tensor<?x256xf32>
  %c = moe.linear %b, %m {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256x!moe.mxfp4>) -> tensor<?x256xf32>
  %d = moe.linear %c, %i {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256x!moe.iq2_xxs>) -> tensor<?x256xf32>
  return %d : tensor<?x256xf32>
}
func.func @prefill(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"prefill", min_tokens = 2, max_tokens = 512, context = 512>} {
  %v = moe.weight_ref @v : tensor<256x256x!moe.tq1_0>
  %a = moe.linear %x, %v {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256x!moe.tq1_0>) -> tensor<?x256xf32>
  return %a : tensor<?x256xf32>
}
}

// -----

// A reference machine is equally slow for every format, so there is no note.


#plain = {name = "plain", devices = [{name = "cpu0", kind = "cpu", isa = "ref", memory_bytes = 1000 : i64, read_bps = 1.0e9 : f64}]}
// CHECK-LABEL: module attributes {moe.target = {devices = [{isa = "ref"
// CHECK: moe.linear {{.*}}linear_ref(gemm_tq2_0_ref)
module attributes {moe.target = #plain} {
moe.weight @v : tensor<256x256x!moe.tq2_0> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%x: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %v = moe.weight_ref @v : tensor<256x256x!moe.tq2_0>
  %a = moe.linear %x, %v {moe.device = "cpu0"} : (tensor<?x256xf32>, tensor<256x256x!moe.tq2_0>) -> tensor<?x256xf32>
  return %a : tensor<?x256xf32>
}
}
