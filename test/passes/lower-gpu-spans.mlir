// RUN: moe-opt %s -split-input-file -moe-select-kernels -moe-lower-to-plan | FileCheck %s

// On a GPU a decoded token's attention has a block for each multiprocessor:
// splits times groups of 16 heads of a latent (of 32, if there are more), or
// times heads of keys and values, are 128 on an RTX 4090.

#gpu = {name = "gpu", devices = [{name = "gpu0", kind = "cuda", isa = "cuda", arch = 89 : i64, cores = 128 : i64, memory_bytes = 1000000000 : i64, reserved_bytes = 1000 : i64, read_bps = 1.0e12 : f64, int8_ops = 1.0e14 : f64, float_ops = 1.0e14 : f64}, {name = "cpu0", kind = "cpu", isa = "avx512", cores = 24 : i64, memory_bytes = 1000000000 : i64, reserved_bytes = 1000 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e12 : f64, float_ops = 1.0e12 : f64}]}
#model = {architecture = "deepseek2", name = "tiny", hash = "abc", hidden = 256 : i64, vocab = 512 : i64, layers = 1 : i64, experts = 4 : i64, experts_used = 2 : i64, parameters = 1000 : i64}
#file = {path = "m.gguf", bytes = 1000000000 : i64, header_bytes = 1024 : i64, header_hash = "0123456789abcdef0123456789abcdef"}

module attributes {moe.target = #gpu, moe.model = #model, moe.files = [#file]} {
moe.weight @n : tensor<512xf32> = #moe.tensor<file = 0, offset = 2048>
moe.weight @w16 : tensor<576x9216xf32> = #moe.tensor<file = 0, offset = 4096>
moe.weight @w128 : tensor<576x73728xf32> = #moe.tensor<file = 0, offset = 4096>

// DeepSeek-V2-Lite: 128 blocks.
// CHECK-LABEL: plan.phase "decode"
// CHECK: plan.buffer "attn.spans" {{.*}} f32 cols 8224 rows [128, 0]
// CHECK: plan.inst latent_attention {{.*}} {heads = 16, latent = 512, rope = 64, splits = 128,
// CHECK: plan.inst combine_splits {{.*}} splits = 128,
func.func @decode(%x: tensor<?x9216xf32>) -> tensor<?x8192xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 32768>} {
  %q = moe.transfer %x from "cpu0" to "gpu0" {moe.label = #moe.label<"x.to_gpu0">, moe.device = "gpu0"} : tensor<?x9216xf32>
  %n = moe.weight_ref @n : tensor<512xf32>
  %w = moe.weight_ref @w16 : tensor<576x9216xf32>
  %a = moe.linear %q, %w {moe.label = #moe.label<"a">, moe.device = "gpu0"} : (tensor<?x9216xf32>, tensor<576x9216xf32>) -> tensor<?x576xf32>
  %kv = moe.mla_latent %a, %n {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 64, base = 1.0e4>, moe.label = #moe.label<"kv">, moe.device = "gpu0"} : (tensor<?x576xf32>, tensor<512xf32>) -> !moe.kv<576>
  %o = moe.latent_attention %q, %kv {heads = 16, latent = 512, rope = 64, scale = 0.5, moe.label = #moe.label<"attn">, moe.device = "gpu0"} : (tensor<?x9216xf32>, !moe.kv<576>) -> tensor<?x8192xf32>
  %r = moe.transfer %o from "gpu0" to "cpu0" {moe.label = #moe.label<"r.to_cpu0">, moe.device = "gpu0"} : tensor<?x8192xf32>
  return %r : tensor<?x8192xf32>
}

// Partial sums take at most 128 MiB, for 64 sequences too.
// CHECK-LABEL: plan.phase "batch"
// CHECK: plan.inst latent_attention {{.*}} splits = 63,
func.func @batch(%x: tensor<?x9216xf32>) -> tensor<?x8192xf32> attributes {moe.phase = #moe.phase<"batch", min_tokens = 2, max_tokens = 64, context = 32768, sequences = 64>} {
  %q = moe.transfer %x from "cpu0" to "gpu0" {moe.label = #moe.label<"x.to_gpu0">, moe.device = "gpu0"} : tensor<?x9216xf32>
  %n = moe.weight_ref @n : tensor<512xf32>
  %w = moe.weight_ref @w16 : tensor<576x9216xf32>
  %a = moe.linear %q, %w {moe.label = #moe.label<"a">, moe.device = "gpu0"} : (tensor<?x9216xf32>, tensor<576x9216xf32>) -> tensor<?x576xf32>
  %kv = moe.mla_latent %a, %n {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 64, base = 1.0e4>, moe.label = #moe.label<"kv">, moe.device = "gpu0"} : (tensor<?x576xf32>, tensor<512xf32>) -> !moe.kv<576>
  %o = moe.latent_attention %q, %kv {heads = 16, latent = 512, rope = 64, scale = 0.5, moe.label = #moe.label<"attn">, moe.device = "gpu0"} : (tensor<?x9216xf32>, !moe.kv<576>) -> tensor<?x8192xf32>
  %r = moe.transfer %o from "gpu0" to "cpu0" {moe.label = #moe.label<"r.to_cpu0">, moe.device = "gpu0"} : tensor<?x8192xf32>
  return %r : tensor<?x8192xf32>
}
}

// -----

#gpu = {name = "gpu", devices = [{name = "gpu0", kind = "cuda", isa = "cuda", arch = 89 : i64, cores = 128 : i64, memory_bytes = 1000000000 : i64, reserved_bytes = 1000 : i64, read_bps = 1.0e12 : f64, int8_ops = 1.0e14 : f64, float_ops = 1.0e14 : f64}, {name = "cpu0", kind = "cpu", isa = "avx512", cores = 24 : i64, memory_bytes = 1000000000 : i64, reserved_bytes = 1000 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e12 : f64, float_ops = 1.0e12 : f64}]}
#model = {architecture = "deepseek2", name = "tiny", hash = "abc", hidden = 256 : i64, vocab = 512 : i64, layers = 1 : i64, experts = 4 : i64, experts_used = 2 : i64, parameters = 1000 : i64}
#file = {path = "m.gguf", bytes = 1000000000 : i64, header_bytes = 1024 : i64, header_hash = "0123456789abcdef0123456789abcdef"}

module attributes {moe.target = #gpu, moe.model = #model, moe.files = [#file]} {
moe.weight @n : tensor<512xf32> = #moe.tensor<file = 0, offset = 2048>
moe.weight @w128 : tensor<576x73728xf32> = #moe.tensor<file = 0, offset = 4096>

// DeepSeek-V3: four groups of heads in 32 splits.
// CHECK-LABEL: plan.phase "decode"
// CHECK: plan.inst latent_attention {{.*}} {heads = 128, latent = 512, rope = 64, splits = 32,
func.func @decode(%x: tensor<?x73728xf32>) -> tensor<?x65536xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 4, context = 32768>} {
  %q = moe.transfer %x from "cpu0" to "gpu0" {moe.label = #moe.label<"x.to_gpu0">, moe.device = "gpu0"} : tensor<?x73728xf32>
  %n = moe.weight_ref @n : tensor<512xf32>
  %w = moe.weight_ref @w128 : tensor<576x73728xf32>
  %a = moe.linear %q, %w {moe.label = #moe.label<"a">, moe.device = "gpu0"} : (tensor<?x73728xf32>, tensor<576x73728xf32>) -> tensor<?x576xf32>
  %kv = moe.mla_latent %a, %n {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 64, base = 1.0e4>, moe.label = #moe.label<"kv">, moe.device = "gpu0"} : (tensor<?x576xf32>, tensor<512xf32>) -> !moe.kv<576>
  %o = moe.latent_attention %q, %kv {heads = 128, latent = 512, rope = 64, scale = 0.5, moe.label = #moe.label<"attn">, moe.device = "gpu0"} : (tensor<?x73728xf32>, !moe.kv<576>) -> tensor<?x65536xf32>
  %r = moe.transfer %o from "gpu0" to "cpu0" {moe.label = #moe.label<"r.to_cpu0">, moe.device = "gpu0"} : tensor<?x65536xf32>
  return %r : tensor<?x65536xf32>
}
}

// -----

#gpu = {name = "gpu", devices = [{name = "gpu0", kind = "cuda", isa = "cuda", arch = 89 : i64, cores = 128 : i64, memory_bytes = 1000000000 : i64, reserved_bytes = 1000 : i64, read_bps = 1.0e12 : f64, int8_ops = 1.0e14 : f64, float_ops = 1.0e14 : f64}, {name = "cpu0", kind = "cpu", isa = "avx512", cores = 24 : i64, memory_bytes = 1000000000 : i64, reserved_bytes = 1000 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e12 : f64, float_ops = 1.0e12 : f64}]}
#model = {architecture = "qwen3moe", name = "tiny", hash = "abc", hidden = 256 : i64, vocab = 512 : i64, layers = 1 : i64, experts = 4 : i64, experts_used = 2 : i64, parameters = 1000 : i64}
#file = {path = "m.gguf", bytes = 1000000000 : i64, header_bytes = 1024 : i64, header_hash = "0123456789abcdef0123456789abcdef"}

module attributes {moe.target = #gpu, moe.model = #model, moe.files = [#file]} {
moe.weight @wk : tensor<512x4096xf32> = #moe.tensor<file = 0, offset = 4096>

// Qwen3-30B-A3B: four heads of keys and values in 32 splits. Tokens of the
// sequence share a block.
// CHECK-LABEL: plan.phase "decode"
// CHECK: plan.inst attention {{.*}} {heads = 32, kv_heads = 4, key = 128, value = 128, splits = 32, window = 0,
// A window has rows for few splits.
// CHECK: plan.inst attention {{.*}} splits = 3, window = 300,
func.func @decode(%x: tensor<?x4096xf32>) -> tensor<?x4096xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 4, context = 32768>} {
  %q = moe.transfer %x from "cpu0" to "gpu0" {moe.label = #moe.label<"x.to_gpu0">, moe.device = "gpu0"} : tensor<?x4096xf32>
  %wk = moe.weight_ref @wk : tensor<512x4096xf32>
  %k = moe.linear %q, %wk {moe.label = #moe.label<"k">, moe.device = "gpu0"} : (tensor<?x4096xf32>, tensor<512x4096xf32>) -> tensor<?x512xf32>
  %kv = moe.kv_store %k, %k {layer = 0, kv_heads = 4, moe.label = #moe.label<"kv">, moe.device = "gpu0"} : (tensor<?x512xf32>, tensor<?x512xf32>) -> !moe.kv<1024>
  %o = moe.gqa_attention %q, %kv {heads = 32, kv_heads = 4, key = 128, value = 128, scale = 0.5, moe.label = #moe.label<"attn">, moe.device = "gpu0"} : (tensor<?x4096xf32>, !moe.kv<1024>) -> tensor<?x4096xf32>
  %p = moe.gqa_attention %o, %kv {heads = 32, kv_heads = 4, key = 128, value = 128, scale = 0.5, window = 300, moe.label = #moe.label<"attn2">, moe.device = "gpu0"} : (tensor<?x4096xf32>, !moe.kv<1024>) -> tensor<?x4096xf32>
  %r = moe.transfer %p from "gpu0" to "cpu0" {moe.label = #moe.label<"r.to_cpu0">, moe.device = "gpu0"} : tensor<?x4096xf32>
  return %r : tensor<?x4096xf32>
}
}
