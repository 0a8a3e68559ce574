// RUN: moe-opt %s -split-input-file -plan-allocate | FileCheck %s

// A chain of seven buffers, 448 bytes, fits into the 128 bytes of the two
// buffers that one instruction reads and writes. Bytes are reused after the
// barrier that follows their last use.
plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  // CHECK: plan.device "cpu0" cpu isa "ref" memory 1000000 {arena_bytes = 128 : i64}
  %cpu0 = plan.device "cpu0" cpu isa "ref" memory 1000000
  %cpu0.compute = plan.queue compute of %cpu0
  %why = plan.explain "op" phase "p" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0


  // A chain needs three places: one that is read, one that is written, and one
  // that was read in the previous stretch.
  // CHECK-LABEL: plan.phase "chain"
  plan.phase "chain" tokens 1 to 1 {
    // CHECK: plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0] at 0{{$}}
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0]
    // CHECK: plan.buffer "b" on %cpu0 f32 cols 16 rows [1, 0] at 64{{$}}
    %b = plan.buffer "b" on %cpu0 f32 cols 16 rows [1, 0]
    // CHECK: plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0] at 0{{$}}
    %c = plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0]
    // CHECK: plan.buffer "d" on %cpu0 f32 cols 16 rows [1, 0] at 64{{$}}
    %d = plan.buffer "d" on %cpu0 f32 cols 16 rows [1, 0]
    // CHECK: plan.buffer "e" on %cpu0 f32 cols 16 rows [1, 0] at 0{{$}}
    %e = plan.buffer "e" on %cpu0 f32 cols 16 rows [1, 0]
    // CHECK: plan.buffer "f" on %cpu0 f32 cols 16 rows [1, 0] at 64{{$}}
    %f = plan.buffer "f" on %cpu0 f32 cols 16 rows [1, 0]
    // CHECK: plan.buffer "g" on %cpu0 f32 cols 16 rows [1, 0] at 0{{$}}
    %g = plan.buffer "g" on %cpu0 f32 cols 16 rows [1, 0]
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %a, out = %b) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %b, y = %b, out = %c) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %c, y = %c, out = %d) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %d, y = %d, out = %e) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %e, y = %e, out = %f) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %f, y = %f, out = %g) for %why
    plan.bind input %a output %g
  }
}

// -----

// Four instructions that need no barrier between them run at the same time:
// although "a" has no later reader, its bytes are not free for "d".
plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  // CHECK: plan.device "cpu0" cpu isa "ref" memory 1000000 {arena_bytes = 384 : i64}
  %cpu0 = plan.device "cpu0" cpu isa "ref" memory 1000000
  %cpu0.compute = plan.queue compute of %cpu0
  %why = plan.explain "op" phase "p" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0

  plan.phase "together" tokens 1 to 1 {
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0]
    %b = plan.buffer "b" on %cpu0 f32 cols 16 rows [1, 0]
    %c = plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0]
    %d = plan.buffer "d" on %cpu0 f32 cols 16 rows [1, 0]
    %e = plan.buffer "e" on %cpu0 f32 cols 16 rows [1, 0]
    %f = plan.buffer "f" on %cpu0 f32 cols 16 rows [1, 0]
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %a, out = %b) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %c, y = %c, out = %d) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %e, y = %e, out = %f) for %why
    plan.bind input %a output %b
  }
}

// -----

// Sizes are those at the most tokens, rounded up to cache lines; the phases
// share the arena; the largest counts.
plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  // CHECK: plan.device "cpu0" cpu isa "ref" memory 1000000 {arena_bytes = 1984 : i64}
  %cpu0 = plan.device "cpu0" cpu isa "ref" memory 1000000
  %cpu0.compute = plan.queue compute of %cpu0
  %why = plan.explain "op" phase "p" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0

  // CHECK-LABEL: plan.phase "small"
  plan.phase "small" tokens 1 to 2 {
    %a = plan.buffer "a" on %cpu0 f32 cols 20 rows [1, 0]
    plan.bind input %a output %a
  }
  // CHECK-LABEL: plan.phase "large"
  // The largest buffer is first: 16 rows of 80 bytes; then 10 rows of 64 bytes
  // of 8-bit activations, and one row.
  plan.phase "large" tokens 1 to 4 {
    // CHECK: plan.buffer "a" {{.*}} at 1920
    %a = plan.buffer "a" on %cpu0 f32 cols 9 rows [0, 1]
    // CHECK: plan.buffer "b" {{.*}} at 0
    %b = plan.buffer "b" on %cpu0 f32 cols 20 rows [4, 0]
    // CHECK: plan.buffer "c" {{.*}} at 1280
    %c = plan.buffer "c" on %cpu0 a8 cols 32 rows [2, 2]
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %b, out = %c) for %why
    plan.bind input %a output %c
  }
}

// -----

plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  // CHECK: plan.device "cpu0" cpu isa "ref" memory 1000000 {arena_bytes = 256 : i64, kv_bytes = 1088 : i64, scratch_bytes = 67584 : i64, weight_bytes = 2048 : i64}
  %cpu0 = plan.device "cpu0" cpu isa "ref" memory 1000000
  %cpu0.compute = plan.queue compute of %cpu0
  // A GPU has no workers with scratch memory.
  // CHECK: plan.device "gpu0" cuda isa "cuda" memory 1000000 {arena_bytes = 128 : i64, weight_bytes = 1024 : i64}
  %gpu0 = plan.device "gpu0" cuda isa "cuda" memory 1000000
  %gpu0.compute = plan.queue compute of %gpu0
  %gguf = plan.file model "m" bytes 10000 header 0 hash "0123456789abcdef0123456789abcdef"
  %w = plan.weight "w" in %gguf at 0 : 1x16x16xF32 strides [1024, 64]
  // Strides do not count, and weights with two readers count once.
  %wide = plan.weight "wide" in %gguf at 0 : 2x8x16xF32 strides [2048, 128]
  // Caches are laid out in order, at multiples of 64.
  // CHECK: plan.kv on %cpu0 layer 0 bf16 rows 16 cols 17 at 0
  %kv0 = plan.kv on %cpu0 layer 0 bf16 rows 16 cols 17
  // CHECK: plan.kv on %cpu0 layer 1 bf16 rows 16 cols 15 at 576
  %kv1 = plan.kv on %cpu0 layer 1 bf16 rows 16 cols 15
  %why = plan.explain "op" phase "p" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0

  // The input is alive from the beginning, the output until the end.
  // CHECK-LABEL: plan.phase "input"
  plan.phase "input" tokens 1 to 1 {
    // CHECK: plan.buffer "in" {{.*}} at 0
    %in = plan.buffer "in" on %cpu0 f32 cols 16 rows [1, 0]
    // CHECK: plan.buffer "out" {{.*}} at 64
    %out = plan.buffer "out" on %cpu0 f32 cols 16 rows [1, 0]
    // CHECK: plan.buffer "t" {{.*}} at 128
    %t = plan.buffer "t" on %cpu0 f32 cols 16 rows [1, 0]
    // CHECK: plan.buffer "u" {{.*}} at 192
    %u = plan.buffer "u" on %cpu0 f32 cols 16 rows [1, 0]
    plan.inst add on %cpu0.compute ["add_ref"] (x = %t, y = %t, out = %out) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %out, y = %t, out = %u) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %u, y = %in, out = %t) for %why
    plan.bind input %in output %out
  }

  // Scratch memory is the largest of all instructions.
  // CHECK-LABEL: plan.phase "matrices"
  plan.phase "matrices" tokens 1 to 1 {
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0]
    %b = plan.buffer "b" on %cpu0 f32 cols 16 rows [1, 0]
    %c = plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0]
    %g = plan.buffer "g" on %gpu0 f32 cols 16 rows [1, 0]
    %h = plan.buffer "h" on %gpu0 f32 cols 16 rows [1, 0]
    plan.inst linear on %cpu0.compute ["linear_ref", "gemm_f32_ref"] (act = %a, w = %w, out = %b) {accumulate = 0} for %why
    plan.inst linear on %cpu0.compute ["linear_ref", "gemm_f32_ref"] (act = %b, w = %w, out = %c) {accumulate = 0} for %why
    plan.inst absorb_query on %cpu0.compute ["absorb_query_ref"] (q = %b, w = %wide, out = %c) {heads = 2, nope = 8, rope = 4, latent = 16} for %why
    plan.inst linear on %gpu0.compute ["linear_cuda", "gemm_f32_cuda"] (act = %g, w = %w, out = %h) {accumulate = 0} for %why
    plan.bind input %a output %c
  }
}

// -----

// The GPU may still copy "b" when the host goes on, so "d" does not take its
// place, as it would after a barrier.
plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %cpu0 = plan.device "cpu0" cpu isa "ref" memory 1000000
  %gpu0 = plan.device "gpu0" cuda isa "cuda" memory 1000000
  %cpu = plan.queue compute of %cpu0
  %copies = plan.queue copy of %gpu0
  %why = plan.explain "op" phase "p" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0

  // CHECK-LABEL: plan.phase "sent"
  plan.phase "sent" tokens 1 to 1 {
    // CHECK: plan.buffer "a" {{.*}} at 0{{$}}
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0]
    // CHECK: plan.buffer "b" {{.*}} at 64{{$}}
    %b = plan.buffer "b" on %cpu0 f32 cols 16 rows [1, 0]
    // CHECK: plan.buffer "c" {{.*}} at 0{{$}}
    %c = plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0]
    // CHECK: plan.buffer "d" {{.*}} at 128{{$}}
    %d = plan.buffer "d" on %cpu0 f32 cols 16 rows [1, 0]
    // CHECK: plan.buffer "e" {{.*}} at 192{{$}}
    %e = plan.buffer "e" on %cpu0 f32 cols 16 rows [1, 0]
    // CHECK: plan.buffer "f" {{.*}} at 0{{$}}
    %f = plan.buffer "f" on %cpu0 f32 cols 16 rows [1, 0]
    %g = plan.buffer "g" on %gpu0 f32 cols 16 rows [1, 0]
    plan.inst add on %cpu ["add_ref"] (x = %a, y = %a, out = %b) for %why
    plan.inst copy on %copies ["copy_cuda"] (x = %b, out = %g) for %why
    plan.inst add on %cpu ["add_ref"] (x = %b, y = %b, out = %c) for %why
    plan.inst add on %cpu ["add_ref"] (x = %c, y = %c, out = %d) for %why
    plan.inst copy on %copies ["copy_cuda"] (x = %g, out = %e) for %why
    plan.inst add on %cpu ["add_ref"] (x = %d, y = %e, out = %f) for %why
    plan.bind input %a output %f
  }
}
