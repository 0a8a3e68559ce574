// RUN: moe-opt %s -plan-order | FileCheck %s
// RUN: moe-opt %s -plan-order -plan-allocate -plan-schedule | FileCheck %s --check-prefix=BARRIERS

plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %cpu0 = plan.device "cpu0" cpu isa "ref" memory 1000000
  %cpu0.compute = plan.queue compute of %cpu0
  %why = plan.explain "op" phase "p" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0

  // Two successive chains of three run side by side, with two barriers instead
  // of five. Instructions of a level keep their order.
  // CHECK-LABEL: plan.phase "chains"
  plan.phase "chains" tokens 1 to 1 {
    %in = plan.buffer "in" on %cpu0 f32 cols 16 rows [1, 0]
    %a1 = plan.buffer "a1" on %cpu0 f32 cols 16 rows [1, 0]
    %a2 = plan.buffer "a2" on %cpu0 f32 cols 16 rows [1, 0]
    %a3 = plan.buffer "a3" on %cpu0 f32 cols 16 rows [1, 0]
    %b1 = plan.buffer "b1" on %cpu0 f32 cols 16 rows [1, 0]
    %b2 = plan.buffer "b2" on %cpu0 f32 cols 16 rows [1, 0]
    %b3 = plan.buffer "b3" on %cpu0 f32 cols 16 rows [1, 0]
    // CHECK: plan.inst add {{.*}} out = %a1)
    // CHECK: plan.inst add {{.*}} out = %b1)
    // CHECK: plan.inst add {{.*}} out = %a2)
    // CHECK: plan.inst add {{.*}} out = %b2)
    // CHECK: plan.inst add {{.*}} out = %a3)
    // CHECK: plan.inst add {{.*}} out = %b3)
    // BARRIERS: out = %a1) for
    // BARRIERS: out = %b1) for
    // BARRIERS: out = %a2) barrier for
    // BARRIERS: out = %b2) for
    // BARRIERS: out = %a3) barrier for
    // BARRIERS: out = %b3) for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %in, y = %in, out = %a1) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a1, y = %a1, out = %a2) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a2, y = %a2, out = %a3) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %in, y = %in, out = %b1) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %b1, y = %b1, out = %b2) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %b2, y = %b2, out = %b3) for %why
    plan.bind input %in output %a3
  }

  // An overwriting instruction follows the readers, and a reader the last
  // write.
  // CHECK-LABEL: plan.phase "hazards"
  plan.phase "hazards" tokens 1 to 1 {
    %in = plan.buffer "in" on %cpu0 f32 cols 16 rows [1, 0]
    %x = plan.buffer "x" on %cpu0 f32 cols 16 rows [1, 0]
    %y = plan.buffer "y" on %cpu0 f32 cols 16 rows [1, 0]
    %z = plan.buffer "z" on %cpu0 f32 cols 16 rows [1, 0]
    // CHECK: plan.inst add {{.*}} out = %x)
    // CHECK: plan.inst add {{.*}} out = %y)
    // CHECK: plan.inst add {{.*}} out = %x)
    // CHECK: plan.inst add {{.*}} out = %z)
    plan.inst add on %cpu0.compute ["add_ref"] (x = %in, y = %in, out = %x) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %x, y = %x, out = %y) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %in, y = %y, out = %x) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %x, y = %in, out = %z) for %why
    plan.bind input %in output %z
  }

  // A worker only waits for itself: each chain's norm needs no level, and both
  // linears run between the same two barriers.
  // BARRIERS-LABEL: plan.phase "own"
  plan.phase "own" tokens 1 to 1 {
    %in = plan.buffer "in" on %cpu0 f32 cols 16 rows [1, 0]
    %a1 = plan.buffer "a1" on %cpu0 f32 cols 16 rows [1, 0] per_worker
    %a2 = plan.buffer "a2" on %cpu0 f32 cols 16 rows [1, 0]
    %b1 = plan.buffer "b1" on %cpu0 f32 cols 16 rows [1, 0]
    %c = plan.buffer "c" on %cpu0 f32 cols 16 rows [1, 0]
    // BARRIERS: out = %a1) for
    // BARRIERS: out = %a2) for
    // BARRIERS: out = %b1) for
    // BARRIERS: out = %c) barrier for
    plan.inst add on %cpu0.compute ["add_ref"] (x = %in, y = %in, out = %a1) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a1, y = %a1, out = %a2) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a2, y = %a2, out = %c) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %in, y = %in, out = %b1) for %why
    plan.bind input %in output %c
  }

  // A late instruction goes behind earlier ones of its queue, though it could
  // begin with them; the attribute is removed.
  // CHECK-LABEL: plan.phase "late"
  plan.phase "late" tokens 1 to 1 {
    %in = plan.buffer "in" on %cpu0 f32 cols 16 rows [1, 0]
    %a1 = plan.buffer "a1" on %cpu0 f32 cols 16 rows [1, 0]
    %a2 = plan.buffer "a2" on %cpu0 f32 cols 16 rows [1, 0]
    %b1 = plan.buffer "b1" on %cpu0 f32 cols 16 rows [1, 0]
    %b2 = plan.buffer "b2" on %cpu0 f32 cols 16 rows [1, 0]
    %c1 = plan.buffer "c1" on %cpu0 f32 cols 16 rows [1, 0]
    // CHECK: plan.inst add {{.*}} out = %a1)
    // CHECK: plan.inst add {{.*}} out = %c1)
    // CHECK: plan.inst add {{.*}} out = %a2)
    // CHECK: plan.inst add {{.*}} out = %b1)
    // CHECK: plan.inst add {{.*}} out = %b2)
    // CHECK-NOT: plan.late
    plan.inst add on %cpu0.compute ["add_ref"] (x = %in, y = %in, out = %a1) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %a1, y = %a1, out = %a2) for %why
    plan.inst add on %cpu0.compute ["add_ref"] (x = %in, y = %in, out = %b1) for %why {plan.late}
    plan.inst add on %cpu0.compute ["add_ref"] (x = %b1, y = %b1, out = %b2) for %why {plan.late}
    plan.inst add on %cpu0.compute ["add_ref"] (x = %in, y = %in, out = %c1) for %why
    plan.bind input %in output %a2
  }
}
