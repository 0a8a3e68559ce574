// RUN: moe-opt %s -plan-schedule | FileCheck %s

// Workers run their parts of an instruction without waiting for each other. A
// barrier is needed before bytes are read or written that others still use.
// Buffers of 16 floats take 64 bytes.

plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %cpu0 = plan.device "cpu0" cpu isa "ref" memory 1000000
  %cpu0.compute = plan.queue compute of %cpu0
  %gpu0 = plan.device "gpu0" cuda isa "cuda" memory 1000000
  %gpu0.compute = plan.queue compute of %gpu0
  %gpu0.copy = plan.queue copy of %gpu0
  %kv0 = plan.kv on %cpu0 layer 0 f32 rows 64 cols 8 at 0
  %kv1 = plan.kv on %cpu0 layer 1 f32 rows 64 cols 8 at 2048
  %gguf = plan.file model "m" bytes 4096 header 0 hash "0123456789abcdef0123456789abcdef"
  %norm = plan.weight "norm" in %gguf at 0 : 1x1x4xF32 strides [16, 16]
  %why = plan.explain "op" phase "p" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0

  // Different bytes: no barrier, and reading together is no conflict.
  // CHECK-LABEL: plan.phase "independent"
  plan.phase "independent" tokens 1 to 1 {
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0] at 0
    %b = plan.buffer "b" on %cpu0 f32 cols 16 rows [1, 0] at 64
    %c = plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0] at 128
    %d = plan.buffer "d" on %cpu0 f32 cols 16 rows [1, 0] at 192
    // CHECK: plan.inst add {{.*}} out = %c) for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %b, out = %c) for %why
    // CHECK: plan.inst add {{.*}} out = %d) for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %b, out = %d) for %why
    plan.bind input %a output %a
  }

  // Read after write.
  // CHECK-LABEL: plan.phase "raw"
  plan.phase "raw" tokens 1 to 1 {
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0] at 0
    %b = plan.buffer "b" on %cpu0 f32 cols 16 rows [1, 0] at 64
    %c = plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0] at 128
    %d = plan.buffer "d" on %cpu0 f32 cols 16 rows [1, 0] at 192
    // CHECK: out = %c) for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %b, out = %c) for %why
    // CHECK: out = %d) barrier for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %c, y = %a, out = %d) for %why
    plan.bind input %a output %a
  }

  // Write after read.
  // CHECK-LABEL: plan.phase "war"
  plan.phase "war" tokens 1 to 1 {
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0] at 0
    %b = plan.buffer "b" on %cpu0 f32 cols 16 rows [1, 0] at 64
    %c = plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0] at 128
    %d = plan.buffer "d" on %cpu0 f32 cols 16 rows [1, 0] at 192
    // CHECK: out = %c) for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %b, out = %c) for %why
    // CHECK: out = %b) barrier for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %d, out = %b) for %why
    plan.bind input %a output %a
  }

  // Write after write.
  // CHECK-LABEL: plan.phase "waw"
  plan.phase "waw" tokens 1 to 1 {
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0] at 0
    %b = plan.buffer "b" on %cpu0 f32 cols 16 rows [1, 0] at 64
    %c = plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0] at 128
    %d = plan.buffer "d" on %cpu0 f32 cols 16 rows [1, 0] at 192
    // CHECK: out = %c) for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %b, out = %c) for %why
    // CHECK: out = %c) barrier for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %d, out = %c) for %why
    plan.bind input %a output %a
  }

  // One barrier covers all earlier hazards.
  // CHECK-LABEL: plan.phase "once"
  plan.phase "once" tokens 1 to 1 {
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0] at 0
    %b = plan.buffer "b" on %cpu0 f32 cols 16 rows [1, 0] at 64
    %c = plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0] at 128
    %d = plan.buffer "d" on %cpu0 f32 cols 16 rows [1, 0] at 192
    %e = plan.buffer "e" on %cpu0 f32 cols 16 rows [1, 0] at 256
    %f = plan.buffer "f" on %cpu0 f32 cols 16 rows [1, 0] at 320
    // CHECK: out = %c) for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %b, out = %c) for %why
    // CHECK: out = %d) for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %b, out = %d) for %why
    // CHECK: out = %e) barrier for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %c, y = %a, out = %e) for %why
    // CHECK: out = %f) for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %d, y = %a, out = %f) for %why
    plan.bind input %a output %a
  }

  // Different buffers in the same bytes.
  // CHECK-LABEL: plan.phase "bytes"
  plan.phase "bytes" tokens 1 to 1 {
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0] at 0
    %b = plan.buffer "b" on %cpu0 f32 cols 16 rows [1, 0] at 64
    %c = plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0] at 128
    %d = plan.buffer "d" on %cpu0 f32 cols 16 rows [1, 0] at 64
    // CHECK: out = %c) for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %b, out = %c) for %why
    // CHECK: out = %d) barrier for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %a, out = %d) for %why
    plan.bind input %a output %a
  }

  // Overlap is computed for the most tokens: 4 rows of d reach into e.
  // CHECK-LABEL: plan.phase "tokens"
  plan.phase "tokens" tokens 1 to 4 {
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0] at 0
    %b = plan.buffer "b" on %cpu0 f32 cols 16 rows [1, 0] at 256
    %c = plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0] at 512
    %d = plan.buffer "d" on %cpu0 f32 cols 16 rows [1, 0] at 768
    %e = plan.buffer "e" on %cpu0 f32 cols 16 rows [1, 0] at 960
    %f = plan.buffer "f" on %cpu0 f32 cols 16 rows [1, 0] at 1024
    // CHECK: out = %d) for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %b, out = %d) for %why
    // CHECK: out = %f) for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %b, out = %f) for %why
    // CHECK: out = %e) barrier for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %b, out = %e) for %why
    plan.bind input %a output %a
  }

  // With accumulate a linear reads its output; either way it writes it.
  // CHECK-LABEL: plan.phase "accumulate"
  plan.phase "accumulate" tokens 1 to 1 {
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0] at 0
    %b = plan.buffer "b" on %cpu0 f32 cols 16 rows [1, 0] at 64
    %c = plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0] at 128
    %d = plan.buffer "d" on %cpu0 f32 cols 16 rows [1, 0] at 192
    %w = plan.buffer "w" on %cpu0 f32 cols 16 rows [1, 0] at 512
    // CHECK: {top_k = 1, accumulate = 0, experts = 0, begin = 0, count = 0} for
    plan.inst experts_combine on %cpu0.compute ["experts_combine_ref"] (y = %a, weights = %b, out = %c) {top_k = 1, accumulate = 0, experts = 0, begin = 0, count = 0} for %why
    // CHECK: {top_k = 1, accumulate = 1, experts = 0, begin = 0, count = 0} barrier for
    plan.inst experts_combine on %cpu0.compute ["experts_combine_ref"] (y = %d, weights = %b, out = %c) {top_k = 1, accumulate = 1, experts = 0, begin = 0, count = 0} for %why
    plan.bind input %a output %a
  }

  // A layer's cache is read after the step's rows were appended; caches of
  // other layers are separate.
  // CHECK-LABEL: plan.phase "cache"
  plan.phase "cache" tokens 1 to 1 {
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0] at 0
    %b = plan.buffer "b" on %cpu0 f32 cols 16 rows [1, 0] at 64
    %c = plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0] at 128
    %d = plan.buffer "d" on %cpu0 f32 cols 16 rows [1, 0] at 192
    %t = plan.buffer "t" on %cpu0 f32 cols 16 rows [1, 0] at 256
    // CHECK: plan.inst mla_latent {{.*}} kv = %kv0) {{.*}}} for
    plan.inst mla_latent on %cpu0.compute ["mla_latent_ref"] (x = %a, weight = %norm, table = %t, kv = %kv0) {latent = 4, rope = 4, eps = 0.0} for %why
    // CHECK: plan.inst mla_latent {{.*}} kv = %kv1) {{.*}}} for
    plan.inst mla_latent on %cpu0.compute ["mla_latent_ref"] (x = %a, weight = %norm, table = %t, kv = %kv1) {latent = 4, rope = 4, eps = 0.0} for %why
    // CHECK: plan.inst latent_attention {{.*}} barrier for
    plan.inst latent_attention on %cpu0.compute ["latent_attention_ref"] (q = %b, kv = %kv0, out = %c) {heads = 1, latent = 4, rope = 4, splits = 1, scale = 1.0} for %why
    plan.bind input %a output %a
  }

  // Each device has its own workers, and barriers of its own.
  // CHECK-LABEL: plan.phase "devices"
  plan.phase "devices" tokens 1 to 1 {
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0] at 0
    %b = plan.buffer "b" on %cpu0 f32 cols 16 rows [1, 0] at 64
    %c = plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0] at 128
    %g = plan.buffer "g" on %gpu0 f32 cols 16 rows [1, 0] at 0
    %h = plan.buffer "h" on %gpu0 f32 cols 16 rows [1, 0] at 64
    // CHECK: add on %cpu0.compute {{.*}} out = %c) for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %b, out = %c) for %why
    // CHECK: add on %gpu0.compute {{.*}} out = %h) for
    plan.inst add on %gpu0.compute ["add_ref"] (x = %g, y = %g, out = %h) for %why
    // CHECK: add on %gpu0.compute {{.*}} out = %g) barrier for
    plan.inst add on %gpu0.compute ["add_ref"] (x = %h, y = %h, out = %g) for %why
    // CHECK: add on %cpu0.compute {{.*}} out = %a) barrier for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %c, y = %c, out = %a) for %why
    plan.bind input %a output %a
  }

  // A GPU's copies read and write the host's memory, so they and its workers
  // wait for each other. The second copy knows of the first because of the sum.
  // CHECK-LABEL: plan.phase "copies"
  plan.phase "copies" tokens 1 to 1 {
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0] at 0
    %b = plan.buffer "b" on %cpu0 f32 cols 16 rows [1, 0] at 64
    %c = plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0] at 128
    %g = plan.buffer "g" on %gpu0 f32 cols 16 rows [1, 0] at 0
    %h = plan.buffer "h" on %gpu0 f32 cols 16 rows [1, 0] at 64
    // CHECK: %[[MADE:.*]] = plan.inst add {{.*}} out = %b) signals for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %a, out = %b) for %why
    // CHECK: %[[SENT:.*]] = plan.inst copy {{.*}} out = %g) after %[[MADE]] signals for
    plan.inst copy on %gpu0.copy ["copy_cuda"] (x = %b, out = %g) for %why
    // CHECK: %[[SUM:.*]] = plan.inst add {{.*}} out = %h) after %[[SENT]] signals for
    plan.inst add on %gpu0.compute ["add_cuda"] (x = %g, y = %g, out = %h) for %why
    // CHECK: %[[BACK:.*]] = plan.inst copy {{.*}} out = %b) after %[[SUM]] signals for
    plan.inst copy on %gpu0.copy ["copy_cuda"] (x = %h, out = %b) for %why
    // The wait for the GPU implies that the first sum has ended.
    // CHECK: plan.inst add {{.*}} (x = %b, y = %b, out = %c) after %[[BACK]] for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %b, y = %b, out = %c) for %why
    plan.bind input %a output %c
  }

  // Bytes that another queue still reads are not overwritten.
  // CHECK-LABEL: plan.phase "reuse"
  plan.phase "reuse" tokens 1 to 1 {
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0] at 0
    %b = plan.buffer "b" on %cpu0 f32 cols 16 rows [1, 0] at 64
    %c = plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0] at 0
    %g = plan.buffer "g" on %gpu0 f32 cols 16 rows [1, 0] at 0
    // CHECK: %[[SENT:.*]] = plan.inst copy {{.*}} signals for
    plan.inst copy on %gpu0.copy ["copy_cuda"] (x = %a, out = %g) for %why
    // CHECK: out = %b) for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %a, out = %b) for %why
    // CHECK: out = %c) after %[[SENT]] barrier for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %b, y = %b, out = %c) barrier for %why
    plan.bind input %a output %c
  }

  // The same offsets of two devices are different bytes.
  // CHECK-LABEL: plan.phase "apart"
  plan.phase "apart" tokens 1 to 1 {
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0] at 0
    %g = plan.buffer "g" on %gpu0 f32 cols 16 rows [1, 0] at 0
    // CHECK-NOT: signals
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %a, out = %a) for %why
    // CHECK-NOT: after
    plan.inst add on %gpu0.compute ["add_cuda"] (x = %g, y = %g, out = %g) for %why
    plan.bind input %a output %a
  }

  // Barriers and events of an earlier run are removed.
  // CHECK-LABEL: plan.phase "again"
  plan.phase "again" tokens 1 to 1 {
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0] at 0
    %b = plan.buffer "b" on %cpu0 f32 cols 16 rows [1, 0] at 64
    %c = plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0] at 128
    // CHECK: out = %c) for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %b, out = %c) barrier for %why
    plan.bind input %a output %a
  }

  // Per-worker memory has its own offsets, and no other worker reads or writes
  // it.
  // CHECK-LABEL: plan.phase "own"
  plan.phase "own" tokens 1 to 1 {
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0] at 0
    %b = plan.buffer "b" on %cpu0 f32 cols 16 rows [1, 0] per_worker at 0
    %c = plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0] at 64
    // CHECK: out = %b) for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %a, out = %b) for %why
    // CHECK: out = %c) for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %b, y = %a, out = %c) for %why
    // CHECK: out = %b) for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a, y = %a, out = %b) for %why
    // Shared memory that it reads still needs a barrier.
    // CHECK: out = %a) barrier for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %b, y = %b, out = %a) for %why
    plan.bind input %a output %a
  }
}
