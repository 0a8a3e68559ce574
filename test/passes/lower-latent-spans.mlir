// RUN: moe-opt %s -split-input-file -moe-select-kernels -moe-lower-to-plan | FileCheck %s

// A step of few tokens has fewer heads than there are cores: attention divides
// the cache into KV splits, and a second instruction combines their results.

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", cores = 24 : i64, memory_bytes = 1000000 : i64, reserved_bytes = 1000 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e12 : f64, float_ops = 1.0e12 : f64}]}
#model = {architecture = "deepseek2", name = "tiny", hash = "abc", hidden = 256 : i64, vocab = 512 : i64, layers = 1 : i64, experts = 4 : i64, experts_used = 2 : i64, parameters = 1000 : i64}
#file = {path = "m.gguf", bytes = 10000000 : i64, header_bytes = 1024 : i64, header_hash = "0123456789abcdef0123456789abcdef"}

module attributes {moe.target = #xeon, moe.model = #model, moe.files = [#file]} {
moe.weight @n : tensor<32xf32> = #moe.tensor<file = 0, offset = 2048>
moe.weight @wa : tensor<36x72xf32> = #moe.tensor<file = 0, offset = 4096>
moe.weight @wa16 : tensor<36x576xf32> = #moe.tensor<file = 0, offset = 4096>

// One KV split per core.
// CHECK-LABEL: plan.phase "decode"
// CHECK: %[[OUT:.*]] = plan.buffer "attn" {{.*}} cols 64 rows [1, 0]
// CHECK: %[[SPANS:.*]] = plan.buffer "attn.spans" {{.*}} f32 cols 68 rows [24, 0]
// CHECK: plan.inst latent_attention {{.*}} out = %[[SPANS]]) {heads = 2, latent = 32, rope = 4, splits = 24, scale = 5.000000e-01}
// CHECK: plan.inst combine_splits {{.*}} (x = %[[SPANS]], out = %[[OUT]]) {heads = 2, latent = 32, splits = 24, window = 0}
func.func @decode(%q: tensor<?x72xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 4, context = 8192>} {
  %n = moe.weight_ref @n : tensor<32xf32>
  %wa = moe.weight_ref @wa : tensor<36x72xf32>
  %a = moe.linear %q, %wa {moe.label = #moe.label<"a">, moe.device = "cpu0"} : (tensor<?x72xf32>, tensor<36x72xf32>) -> tensor<?x36xf32>
  %kv = moe.mla_latent %a, %n {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 4, base = 1.0e4>, moe.label = #moe.label<"kv">, moe.device = "cpu0"} : (tensor<?x36xf32>, tensor<32xf32>) -> !moe.kv<36>
  %o = moe.latent_attention %q, %kv {heads = 2, latent = 32, rope = 4, scale = 0.5, moe.label = #moe.label<"attn">, moe.device = "cpu0"} : (tensor<?x72xf32>, !moe.kv<36>) -> tensor<?x64xf32>
  return %o : tensor<?x64xf32>
}

// The tokens of a longer step keep all cores busy.
// CHECK-LABEL: plan.phase "prefill"
// CHECK-NOT: plan.buffer "attn.spans"
// CHECK: plan.inst latent_attention {{.*}} splits = 1,
// CHECK-NOT: plan.inst combine_splits
func.func @prefill(%q: tensor<?x72xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"prefill", min_tokens = 5, max_tokens = 64, context = 8192>} {
  %n = moe.weight_ref @n : tensor<32xf32>
  %wa = moe.weight_ref @wa : tensor<36x72xf32>
  %a = moe.linear %q, %wa {moe.label = #moe.label<"a">, moe.device = "cpu0"} : (tensor<?x72xf32>, tensor<36x72xf32>) -> tensor<?x36xf32>
  %kv = moe.mla_latent %a, %n {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 4, base = 1.0e4>, moe.label = #moe.label<"kv">, moe.device = "cpu0"} : (tensor<?x36xf32>, tensor<32xf32>) -> !moe.kv<36>
  %o = moe.latent_attention %q, %kv {heads = 2, latent = 32, rope = 4, scale = 0.5, moe.label = #moe.label<"attn">, moe.device = "cpu0"} : (tensor<?x72xf32>, !moe.kv<36>) -> tensor<?x64xf32>
  return %o : tensor<?x64xf32>
}

// So do the caches of a batch: two groups of eight heads in at least two caches
// are four parts, which six KV splits turn into 24.
// CHECK-LABEL: plan.phase "batch"
// CHECK: plan.buffer "attn.spans" {{.*}} f32 cols 544 rows [6, 0]
// CHECK: plan.inst latent_attention {{.*}} {heads = 16, latent = 32, rope = 4, splits = 6,
func.func @batch(%q: tensor<?x576xf32>) -> tensor<?x512xf32> attributes {moe.phase = #moe.phase<"batch", min_tokens = 2, max_tokens = 64, context = 8192, sequences = 64>} {
  %n = moe.weight_ref @n : tensor<32xf32>
  %wa = moe.weight_ref @wa16 : tensor<36x576xf32>
  %a = moe.linear %q, %wa {moe.label = #moe.label<"a">, moe.device = "cpu0"} : (tensor<?x576xf32>, tensor<36x576xf32>) -> tensor<?x36xf32>
  %kv = moe.mla_latent %a, %n {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 4, base = 1.0e4>, moe.label = #moe.label<"kv">, moe.device = "cpu0"} : (tensor<?x36xf32>, tensor<32xf32>) -> !moe.kv<36>
  %o = moe.latent_attention %q, %kv {heads = 16, latent = 32, rope = 4, scale = 0.5, moe.label = #moe.label<"attn">, moe.device = "cpu0"} : (tensor<?x576xf32>, !moe.kv<36>) -> tensor<?x512xf32>
  return %o : tensor<?x512xf32>
}
}

// -----

#two = {name = "two", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", cores = 2 : i64, memory_bytes = 1000000 : i64, reserved_bytes = 1000 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e12 : f64, float_ops = 1.0e12 : f64}]}
#model = {architecture = "deepseek2", name = "tiny", hash = "abc", hidden = 256 : i64, vocab = 512 : i64, layers = 1 : i64, experts = 4 : i64, experts_used = 2 : i64, parameters = 1000 : i64}
#file = {path = "m.gguf", bytes = 10000000 : i64, header_bytes = 1024 : i64, header_hash = "0123456789abcdef0123456789abcdef"}

// Eight KV splits if there are fewer cores, but at most one per 128 rows of the
// context.
module attributes {moe.target = #two, moe.model = #model, moe.files = [#file]} {
moe.weight @n : tensor<32xf32> = #moe.tensor<file = 0, offset = 2048>
moe.weight @wa : tensor<36x72xf32> = #moe.tensor<file = 0, offset = 4096>
// CHECK-LABEL: plan.phase "decode"
// CHECK: plan.inst latent_attention {{.*}} splits = 3,
func.func @decode(%q: tensor<?x72xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 300>} {
  %n = moe.weight_ref @n : tensor<32xf32>
  %wa = moe.weight_ref @wa : tensor<36x72xf32>
  %a = moe.linear %q, %wa {moe.label = #moe.label<"a">, moe.device = "cpu0"} : (tensor<?x72xf32>, tensor<36x72xf32>) -> tensor<?x36xf32>
  %kv = moe.mla_latent %a, %n {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 4, base = 1.0e4>, moe.label = #moe.label<"kv">, moe.device = "cpu0"} : (tensor<?x36xf32>, tensor<32xf32>) -> !moe.kv<36>
  %o = moe.latent_attention %q, %kv {heads = 2, latent = 32, rope = 4, scale = 0.5, moe.label = #moe.label<"attn">, moe.device = "cpu0"} : (tensor<?x72xf32>, !moe.kv<36>) -> tensor<?x64xf32>
  return %o : tensor<?x64xf32>
}
// One group of heads in each of two caches keeps two cores busy.
// CHECK-LABEL: plan.phase "batch"
// CHECK-NOT: plan.buffer "attn.spans"
// CHECK: plan.inst latent_attention {{.*}} splits = 1,
// CHECK-NOT: plan.inst combine_splits
func.func @batch(%q: tensor<?x72xf32>) -> tensor<?x64xf32> attributes {moe.phase = #moe.phase<"batch", min_tokens = 2, max_tokens = 4, context = 300, sequences = 4>} {
  %n = moe.weight_ref @n : tensor<32xf32>
  %wa = moe.weight_ref @wa : tensor<36x72xf32>
  %a = moe.linear %q, %wa {moe.label = #moe.label<"a">, moe.device = "cpu0"} : (tensor<?x72xf32>, tensor<36x72xf32>) -> tensor<?x36xf32>
  %kv = moe.mla_latent %a, %n {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 4, base = 1.0e4>, moe.label = #moe.label<"kv">, moe.device = "cpu0"} : (tensor<?x36xf32>, tensor<32xf32>) -> !moe.kv<36>
  %o = moe.latent_attention %q, %kv {heads = 2, latent = 32, rope = 4, scale = 0.5, moe.label = #moe.label<"attn">, moe.device = "cpu0"} : (tensor<?x72xf32>, !moe.kv<36>) -> tensor<?x64xf32>
  return %o : tensor<?x64xf32>
}
}
