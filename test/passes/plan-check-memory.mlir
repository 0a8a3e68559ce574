// RUN: not moe-opt %s -plan-check-memory -mlir-print-op-on-diagnostic=false 2>&1 | FileCheck %s
// RUN: sed 's/memory 1000/memory 2000/' %s | moe-opt -plan-check-memory | FileCheck %s --check-prefix=FITS

// Weights, cache, arena, workspace, and scratch of each of two workers.
// CHECK: error: the plan does not fit
// CHECK-NEXT: cpu0: 1.1 KiB of 1000 B
// CHECK-NOT: gpu0
// CHECK: note: leave memory free with --vram-limit or --dram-limit
// FITS: plan.device "cpu0"
module {
plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %cpu0 = plan.device "cpu0" cpu isa "avx2" memory 1000 {weight_bytes = 500 : i64, kv_bytes = 100 : i64, arena_bytes = 100 : i64, scratch_bytes = 150 : i64, worker_bytes = 64 : i64, cores = 2 : i32}
  %gpu0 = plan.device "gpu0" cuda isa "cuda" memory 5000 {arch = 89 : i32, weight_bytes = 4000 : i64, workspace_bytes = 1000 : i64}
}
}
