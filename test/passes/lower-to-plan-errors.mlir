// RUN: moe-opt %s --split-input-file --verify-diagnostics -moe-lower-to-plan

// A machine description is needed.
// expected-error @+1 {{expected the attribute moe.target}}
module {
}

// -----

// Phases are functions.
#hybrid = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64}]}
// expected-error @+1 {{expected functions with a phase, found none}}
module attributes {moe.target = #hybrid} {
}

// -----

// The model is not specialised yet.
#hybrid = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64}]}
module attributes {moe.target = #hybrid} {
// expected-error @+1 {{expected moe.phase; run moe-specialize-phases first}}
func.func @forward(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  return %x : tensor<?x64xf32>
}
}

// -----

// Properties of the model are missing.
#hybrid = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64}]}
// expected-error @+1 {{expected 'architecture' in moe.model}}
module attributes {moe.target = #hybrid, moe.files = [], moe.model = {name = "t"}} {
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  return %x : tensor<?x64xf32>
}
}

// -----

// Kernels come from moe-select-kernels.
#hybrid = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64}]}
module attributes {moe.target = #hybrid,
  moe.model = {architecture = "a", name = "t", hash = "h", hidden = 64 : i64, vocab = 8 : i64, layers = 1 : i64, experts = 0 : i64, experts_used = 0 : i64, parameters = 1 : i64},
  moe.files = [{path = "m", bytes = 1000000 : i64, header_bytes = 8 : i64, header_hash = "0123456789abcdef0123456789abcdef"}]} {
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  // expected-error @+1 {{run moe-select-kernels first}}
  %y = moe.add %x, %x {moe.device = "cpu0"} : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
}

// -----

// The target does not have the device.
#hybrid = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64}]}
module attributes {moe.target = #hybrid,
  moe.model = {architecture = "a", name = "t", hash = "h", hidden = 64 : i64, vocab = 8 : i64, layers = 1 : i64, experts = 0 : i64, experts_used = 0 : i64, parameters = 1 : i64},
  moe.files = [{path = "m", bytes = 1000000 : i64, header_bytes = 8 : i64, header_hash = "0123456789abcdef0123456789abcdef"}]} {
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  // expected-error @+1 {{is on device 'gpu7', which the target '4090+xeon' does not have}}
  %y = moe.add %x, %x {moe.device = "gpu7", moe.kernels = #moe.kernels<add_cuda>} : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
}

// -----

// A weight in a file that is not listed.
#hybrid = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64}]}
module attributes {moe.target = #hybrid,
  moe.model = {architecture = "a", name = "t", hash = "h", hidden = 64 : i64, vocab = 8 : i64, layers = 1 : i64, experts = 0 : i64, experts_used = 0 : i64, parameters = 1 : i64},
  moe.files = [{path = "m", bytes = 1000000 : i64, header_bytes = 8 : i64, header_hash = "0123456789abcdef0123456789abcdef"}]} {
// expected-error @+1 {{expected path, bytes, header_bytes and header_hash of file 3 in moe.files of 1 files}}
moe.weight @w : tensor<64xf32> = #moe.tensor<file = 3, offset = 0>
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %w = moe.weight_ref @w : tensor<64xf32>
  %y = moe.rms_norm %x, %w {eps = 1.0e-6, moe.device = "cpu0", moe.kernels = #moe.kernels<rms_norm_ref>} : tensor<?x64xf32>, tensor<64xf32>
  return %y : tensor<?x64xf32>
}
}

// -----

// Packing computes weights from those of the model file alone.
#hybrid = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64}]}
module attributes {moe.target = #hybrid,
  moe.model = {architecture = "a", name = "t", hash = "h", hidden = 64 : i64, vocab = 8 : i64, layers = 1 : i64, experts = 0 : i64, experts_used = 0 : i64, parameters = 1 : i64},
  moe.files = [{path = "m", bytes = 1000000 : i64, header_bytes = 8 : i64, header_hash = "0123456789abcdef0123456789abcdef"}]} {
moe.weight @w : tensor<2x16x32xf32> = #moe.tensor<file = 0, offset = 8>
moe.weight @t : tensor<2x32x16xf32> = #moe.transpose of [@w]
// expected-error @+1 {{expected the parts of @u to be in the model file, but packing computes @t}}
moe.weight @u : tensor<2x16x32xf32> = #moe.transpose of [@t]
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %u = moe.weight_ref @u : tensor<2x16x32xf32>
  %y = moe.expand_value %x, %u {heads = 2, latent = 32, value = 16, moe.device = "cpu0", moe.kernels = #moe.kernels<head_linear_ref(gemm_f32_ref)>} : (tensor<?x64xf32>, tensor<2x16x32xf32>) -> tensor<?x32xf32>
  return %x : tensor<?x64xf32>
}
}

// -----

// RoPE works in place, so nothing else may read what it rotates.
#hybrid = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64}]}
module attributes {moe.target = #hybrid,
  moe.model = {architecture = "a", name = "t", hash = "h", hidden = 64 : i64, vocab = 8 : i64, layers = 1 : i64, experts = 0 : i64, experts_used = 0 : i64, parameters = 1 : i64},
  moe.files = [{path = "m", bytes = 1000000 : i64, header_bytes = 8 : i64, header_hash = "0123456789abcdef0123456789abcdef"}]} {
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %a = moe.add %x, %x {moe.device = "cpu0", moe.kernels = #moe.kernels<add_ref>} : tensor<?x64xf32>
  // expected-error @+1 {{expected the value that it overwrites to have no later use}}
  %r = moe.rope %a {heads = 1, offset = 0, rope = #moe.rope<dim = 64, base = 1.0e4>, moe.device = "cpu0", moe.kernels = #moe.kernels<rope_table_ref, rope_ref>} : tensor<?x64xf32>
  %y = moe.add %a, %r {moe.device = "cpu0", moe.kernels = #moe.kernels<add_ref>} : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
}

// -----

// A cache is on one device.
#hybrid = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64}]}
module attributes {moe.target = #hybrid,
  moe.model = {architecture = "a", name = "t", hash = "h", hidden = 64 : i64, vocab = 8 : i64, layers = 1 : i64, experts = 0 : i64, experts_used = 0 : i64, parameters = 1 : i64},
  moe.files = [{path = "m", bytes = 1000000 : i64, header_bytes = 8 : i64, header_hash = "0123456789abcdef0123456789abcdef"}]} {
moe.weight @n : tensor<32xf32> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %n = moe.weight_ref @n : tensor<32xf32>
  %kv = moe.mla_latent %x, %n {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 32, base = 1.0e4>, moe.device = "cpu0", moe.kernels = #moe.kernels<rope_table_ref, mla_latent_ref>} : (tensor<?x64xf32>, tensor<32xf32>) -> !moe.kv<64>
  return %x : tensor<?x64xf32>
}
func.func @prefill(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"prefill", min_tokens = 1, max_tokens = 1, context = 64>} {
  %n = moe.weight_ref @n : tensor<32xf32>
  // expected-error @+1 {{expected the cache of layer 0 on one device and as '!moe.kv<64>' in every phase, found '!moe.kv<64>' or another device}}
  %kv = moe.mla_latent %x, %n {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 32, base = 1.0e4>, moe.device = "gpu0", moe.kernels = #moe.kernels<rope_table_cuda, mla_latent_cuda>} : (tensor<?x64xf32>, tensor<32xf32>) -> !moe.kv<64>
  return %x : tensor<?x64xf32>
}
}

// -----

// A cache has one type.
#hybrid = {name = "4090+xeon", devices = [
  {name = "gpu0", kind = "cuda", isa = "cuda", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64},
  {name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000000 : i64, read_bps = 1.0e9 : f64}]}
module attributes {moe.target = #hybrid,
  moe.model = {architecture = "a", name = "t", hash = "h", hidden = 64 : i64, vocab = 8 : i64, layers = 1 : i64, experts = 0 : i64, experts_used = 0 : i64, parameters = 1 : i64},
  moe.files = [{path = "m", bytes = 1000000 : i64, header_bytes = 8 : i64, header_hash = "0123456789abcdef0123456789abcdef"}]} {
moe.weight @n : tensor<32xf32> = #moe.tensor<file = 0, offset = 0>
func.func @decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 64>} {
  %n = moe.weight_ref @n : tensor<32xf32>
  %kv = moe.mla_latent %x, %n {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 32, base = 1.0e4>, moe.device = "cpu0", moe.kernels = #moe.kernels<rope_table_ref, mla_latent_ref>} : (tensor<?x64xf32>, tensor<32xf32>) -> !moe.kv<64>
  return %x : tensor<?x64xf32>
}
func.func @prefill(%x: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"prefill", min_tokens = 1, max_tokens = 1, context = 64>} {
  %n = moe.weight_ref @n : tensor<32xf32>
  // expected-error @+1 {{expected the cache of layer 0 on one device and as '!moe.kv<64>' in every phase, found '!moe.kv<64, q8_0>' or another device}}
  %kv = moe.mla_latent %x, %n {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 32, base = 1.0e4>, moe.device = "cpu0", moe.kernels = #moe.kernels<rope_table_ref, mla_latent_ref>} : (tensor<?x64xf32>, tensor<32xf32>) -> !moe.kv<64, q8_0>
  return %x : tensor<?x64xf32>
}
}
