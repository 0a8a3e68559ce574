// RUN: moe-opt %s -plan-replicate | FileCheck %s
// RUN: moe-opt %s -plan-replicate=max-bytes=200 | FileCheck %s --check-prefix=TINY
// RUN: moe-opt %s -plan-replicate -plan-order -plan-allocate -plan-schedule | FileCheck %s --check-prefix=PLAN

// Every worker runs small instructions for itself: their results are in its own
// memory, and no barrier follows.

plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 32 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  // PLAN: plan.device "cpu0" cpu isa "ref" memory 1000000 {arena_bytes = {{.*}} worker_bytes = 16384 : i64}
  %cpu0 = plan.device "cpu0" cpu isa "ref" memory 1000000
  %cpu0.compute = plan.queue compute of %cpu0
  %gpu0 = plan.device "gpu0" cuda isa "cuda" memory 1000000
  %gpu0.compute = plan.queue compute of %gpu0
  %kv0 = plan.kv on %cpu0 layer 0 f32 rows 64 cols 32 at 0
  %gguf = plan.file model "m" bytes 65536 header 0 hash "0123456789abcdef0123456789abcdef"
  %norm = plan.weight "norm" in %gguf at 0 : 1x1x32xF32 strides [128, 128]
  %w = plan.weight "w" in %gguf at 128 : 1x32x32xF32 strides [4096, 128]
  %why = plan.explain "op" phase "p" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0

  // A linear is divided among workers; the norm and the quantisation before it
  // are not. The stream that it adds to stays shared, though a small
  // instruction also writes it.
  // CHECK-LABEL: plan.phase "decode"
  // TINY-LABEL: plan.phase "decode"
  // PLAN-LABEL: plan.phase "decode"
  plan.phase "decode" tokens 1 to 1 {
    // CHECK: %[[IN:.*]] = plan.buffer "in" {{.*}} rows [1, 0]{{$}}
    %in = plan.buffer "in" on %cpu0 f32 cols 32 rows [1, 0]
    // CHECK: plan.buffer "x" {{.*}} rows [1, 0]{{$}}
    %x = plan.buffer "x" on %cpu0 f32 cols 32 rows [1, 0]
    // CHECK: plan.buffer "n" {{.*}} rows [1, 0] per_worker{{$}}
    // TINY: plan.buffer "n" {{.*}} rows [1, 0]{{$}}
    %n = plan.buffer "n" on %cpu0 f32 cols 32 rows [1, 0]
    // CHECK: plan.buffer "n8" {{.*}} rows [1, 0] per_worker{{$}}
    // TINY: plan.buffer "n8" {{.*}} rows [1, 0] per_worker{{$}}
    %n8 = plan.buffer "n8" on %cpu0 a8 cols 32 rows [1, 0]
    // PLAN: add {{.*}} out = %x) for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %in, y = %in, out = %x) for %why
    // PLAN: rms_norm {{.*}} barrier for
    plan.inst rms_norm on %cpu0.compute ["rms_norm_ref"] (x = %x, weight = %norm, out = %n) {groups = 1, whole = 0, eps = 1.0e-6} for %why
    // PLAN: quantize {{.*}} out = %n8) for
    plan.inst quantize on %cpu0.compute ["quantize_ref"] (x = %n, out = %n8) for %why
    // It writes what the norm reads.
    // PLAN: linear {{.*}} barrier for
    plan.inst linear on %cpu0.compute ["linear_ref", "gemm_f32_ref"] (act = %n8, w = %w, out = %x) {accumulate = 1} for %why
    plan.bind input %in output %x
  }

  // 3 * 8 KiB for one token are small, but not for eight tokens; a quarter of
  // that is.
  // CHECK-LABEL: plan.phase "batch"
  plan.phase "batch" tokens 2 to 8 {
    // CHECK: plan.buffer "y" {{.*}} cols 2048 rows [1, 0]{{$}}
    // CHECK: plan.buffer "z" {{.*}} cols 512 rows [1, 0] per_worker{{$}}
    %x = plan.buffer "x" on %cpu0 f32 cols 2048 rows [1, 0]
    %h = plan.buffer "h" on %cpu0 f32 cols 512 rows [1, 0]
    %y = plan.buffer "y" on %cpu0 f32 cols 2048 rows [1, 0]
    %z = plan.buffer "z" on %cpu0 f32 cols 512 rows [1, 0]
    plan.inst add on %cpu0.compute ["add_ref"] (x = %x, y = %x, out = %y) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %h, y = %h, out = %z) for %why
    plan.bind input %x output %h
  }

  // Long steps, devices other than CPUs, and caches.
  // CHECK-LABEL: plan.phase "prefill"
  // CHECK-NOT: per_worker
  plan.phase "prefill" tokens 1 to 16 {
    %x = plan.buffer "x" on %cpu0 f32 cols 32 rows [1, 0]
    %n = plan.buffer "n" on %cpu0 f32 cols 32 rows [1, 0]
    plan.inst rms_norm on %cpu0.compute ["rms_norm_ref"] (x = %x, weight = %norm, out = %n) {groups = 1, whole = 0, eps = 1.0e-6} for %why
    plan.bind input %x output %x
  }
  plan.phase "devices" tokens 1 to 1 {
    %x = plan.buffer "x" on %gpu0 f32 cols 32 rows [1, 0]
    %n = plan.buffer "n" on %gpu0 f32 cols 32 rows [1, 0]
    plan.inst rms_norm on %gpu0.compute ["rms_norm_cuda"] (x = %x, weight = %norm, out = %n) {groups = 1, whole = 0, eps = 1.0e-6} for %why
    plan.bind input %x output %x
  }
  plan.phase "cache" tokens 1 to 1 {
    %q = plan.buffer "q" on %cpu0 f32 cols 32 rows [1, 0]
    %o = plan.buffer "o" on %cpu0 f32 cols 16 rows [1, 0]
    plan.inst latent_attention on %cpu0.compute ["latent_attention_ref"] (q = %q, kv = %kv0, out = %o) {heads = 1, latent = 16, rope = 16, splits = 1, scale = 1.0} for %why
    plan.bind input %q output %q
  }

  // The caller fills and reads these.
  // CHECK-LABEL: plan.phase "ends"
  // CHECK-NOT: per_worker
  plan.phase "ends" tokens 1 to 1 {
    %x = plan.buffer "x" on %cpu0 f32 cols 32 rows [1, 0]
    %n = plan.buffer "n" on %cpu0 f32 cols 32 rows [1, 0]
    plan.inst rms_norm on %cpu0.compute ["rms_norm_ref"] (x = %x, weight = %norm, out = %n) {groups = 1, whole = 0, eps = 1.0e-6} for %why
    plan.bind input %x output %n
  }

  // Two results of one instruction are both shared: one has to be, because the
  // linear writes it too.
  // CHECK-LABEL: plan.phase "together"
  // CHECK: plan.buffer "ids" {{.*}} rows [1, 0]{{$}}
  // CHECK: plan.buffer "weights" {{.*}} rows [1, 0]{{$}}
  // CHECK: plan.buffer "sum" {{.*}} rows [1, 0] per_worker{{$}}
  plan.phase "together" tokens 1 to 1 {
    %x = plan.buffer "x" on %cpu0 f32 cols 32 rows [1, 0]
    %ids = plan.buffer "ids" on %cpu0 i32 cols 2 rows [1, 0]
    %weights = plan.buffer "weights" on %cpu0 f32 cols 32 rows [1, 0]
    %sum = plan.buffer "sum" on %cpu0 f32 cols 32 rows [1, 0]
    plan.inst router on %cpu0.compute ["router_ref"] (logits = %x, ids = %ids, weights = %weights) {experts = 32, top_k = 2, groups = 1, groups_used = 1, group_best = 1, scoring = 1, normalize = 0, scale = 1.0} for %why
    plan.inst linear on %cpu0.compute ["linear_ref", "gemm_f32_ref"] (act = %x, w = %w, out = %weights) {accumulate = 0} for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %weights, y = %x, out = %sum) for %why
    plan.bind input %x output %x
  }
}
