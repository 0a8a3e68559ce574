// RUN: moe-opt %s -moe-select-kernels=weights=reference -moe-lower-to-plan | FileCheck %s
// RUN: sed 's/window = 61/window = 62/' %s | moe-opt -moe-select-kernels=weights=reference -moe-lower-to-plan | FileCheck %s --check-prefix=TWO
// RUN: sed 's/context = 8192/context = 192/' %s | moe-opt -moe-select-kernels=weights=reference -moe-lower-to-plan | FileCheck %s --check-prefix=SHORT
// RUN: sed 's/window = 0/window = 61/' %s | moe-opt -moe-select-kernels=weights=reference -moe-lower-to-plan | FileCheck %s --check-prefix=ALL
// RUN: moe-opt %s -moe-size-caches=kv-budget=4292608 | FileCheck %s --check-prefix=BUDGET
// RUN: not moe-opt %s -moe-size-caches=kv-budget=4292607 2>&1 | FileCheck %s --check-prefix=SMALL

// Tokens of the first layer see 61 rows, and steps have up to four tokens: 64
// rows of 256 elements, for the sequence and two checkpoints.
// CHECK: plan.kv {{.*}} layer 0 bf16 rows 3 cols 16384 {row_per_sequence}
// CHECK: plan.kv {{.*}} layer 1 bf16 rows 8192 cols 256
// CHECK-NOT: row_per_sequence
// The last of four tokens would need one row more.
// TWO: plan.kv {{.*}} layer 0 bf16 rows 3 cols 32768 {row_per_sequence}
// Three rings would take no less memory than a context.
// SHORT: plan.kv {{.*}} layer 0 bf16 rows 192 cols 256
// A cache with all positions is needed to count pages.
// ALL: plan.kv {{.*}} layer 0 bf16 rows 8192 cols 256
// ALL: plan.kv {{.*}} layer 1 bf16 rows 8192 cols 256

// Rings are subtracted from a budget first: 3 * 64 * 512 bytes, then pages of
// 32 KiB.
// BUDGET: moe.kv_rows = 8192 : i64
// SMALL: error: a KV cache of 4.1 MiB holds 8128 tokens, less than a context of 8192
// SMALL: note: give it at least 4192KiB

#xeon = {name = "xeon", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", cores = 24 : i64, memory_bytes = 1000000 : i64, reserved_bytes = 1000 : i64, read_bps = 1.0e9 : f64, int8_ops = 1.0e12 : f64, float_ops = 1.0e12 : f64}]}
#file = {path = "m.gguf", bytes = 10000000 : i64, header_bytes = 1024 : i64, header_hash = "0123456789abcdef0123456789abcdef"}

module attributes {moe.target = #xeon, moe.files = [#file],
  moe.model = {architecture = "gpt-oss", name = "tiny", hash = "abc", hidden = 64 : i64, vocab = 512 : i64, layers = 2 : i64, experts = 0 : i64, experts_used = 0 : i64, parameters = 1000 : i64}} {
moe.weight @wk : tensor<32x96xf32> = #moe.tensor<file = 0, offset = 4096>
moe.weight @wv : tensor<24x96xf32> = #moe.tensor<file = 0, offset = 50000>
func.func @decode(%x: tensor<?x96xf32>) -> tensor<?x72xf32> attributes {moe.phase = #moe.phase<"decode", min_tokens = 1, max_tokens = 4, context = 8192>} {
  %wk = moe.weight_ref @wk : tensor<32x96xf32>
  %wv = moe.weight_ref @wv : tensor<24x96xf32>
  %k = moe.linear %x, %wk {moe.label = #moe.label<"k">, moe.device = "cpu0"} : (tensor<?x96xf32>, tensor<32x96xf32>) -> tensor<?x32xf32>
  %v = moe.linear %x, %wv {moe.label = #moe.label<"v">, moe.device = "cpu0"} : (tensor<?x96xf32>, tensor<24x96xf32>) -> tensor<?x24xf32>
  %kv0 = moe.kv_store %k, %v {layer = 0, kv_heads = 2, moe.label = #moe.label<"kv0">, moe.device = "cpu0"} : (tensor<?x32xf32>, tensor<?x24xf32>) -> !moe.kv<256>
  %kv1 = moe.kv_store %k, %v {layer = 1, kv_heads = 2, moe.label = #moe.label<"kv1">, moe.device = "cpu0"} : (tensor<?x32xf32>, tensor<?x24xf32>) -> !moe.kv<256>
  %a = moe.gqa_attention %x, %kv0 {heads = 6, kv_heads = 2, key = 16, value = 12, scale = 0.25, window = 61, moe.label = #moe.label<"a">, moe.device = "cpu0"} : (tensor<?x96xf32>, !moe.kv<256>) -> tensor<?x72xf32>
  %b = moe.gqa_attention %x, %kv1 {heads = 6, kv_heads = 2, key = 16, value = 12, scale = 0.25, window = 0, moe.label = #moe.label<"b">, moe.device = "cpu0"} : (tensor<?x96xf32>, !moe.kv<256>) -> tensor<?x72xf32>
  %ab = moe.add %a, %b {moe.label = #moe.label<"ab">, moe.device = "cpu0"} : tensor<?x72xf32>
  return %ab : tensor<?x72xf32>
}
}
