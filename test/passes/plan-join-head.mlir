// RUN: moe-opt %s -plan-join-head -split-input-file | FileCheck %s

// A decode step of one token computes its logits. The hidden state, which gpu0
// computes and the head on gpu0 reads, does not go through the host: both
// copies are gone with their explanations.

// CHECK-LABEL: plan.program
// CHECK-NOT: plan.explain "hand_over"
// CHECK: plan.explain "output" phase "logits"
// CHECK-NEXT: %[[OWN:.*]] = plan.explain "output" phase "decode"
// CHECK: plan.phase "decode" tokens 1 to 1 with_head {
// CHECK: %[[IN:.*]] = plan.buffer "in"
// CHECK-NOT: plan.buffer "hidden"
// CHECK: %[[H:.*]] = plan.buffer "h"
// CHECK: plan.inst add {{.*}} (x = %[[H]], y = %[[H]], out = %[[H]])
// CHECK-NOT: plan.inst copy
// CHECK: %[[Z:.*]] = plan.buffer "z" on %gpu0
// CHECK: %[[OUT:.*]] = plan.buffer "out" on %cpu0
// CHECK: plan.inst add {{.*}} (x = %[[H]], y = %[[H]], out = %[[Z]]) for %[[OWN]]
// CHECK: plan.inst copy {{.*}} (x = %[[Z]], out = %[[OUT]])
// CHECK: plan.bind input %[[IN]] output %[[OUT]]
// CHECK: plan.phase "logits" tokens 1 to 8 {
// CHECK: plan.bind

plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 32 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 32 : i64} {
  %cpu0 = plan.device "cpu0" cpu isa "ref" memory 1000000
  %gpu0 = plan.device "gpu0" cuda isa "cuda" memory 1000000
  %gpu0.compute = plan.queue compute of %gpu0
  %gpu0.copy = plan.queue copy of %gpu0
  %why = plan.explain "op" phase "decode" on "gpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  %over = plan.explain "hand_over" phase "decode" on "gpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  %back = plan.explain "hand_over_back" phase "logits" on "gpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  %head = plan.explain "output" phase "logits" on "gpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  plan.phase "decode" tokens 1 to 1 {
    %in = plan.buffer "in" on %cpu0 i32 cols 1 rows [1, 0]
    %h = plan.buffer "h" on %gpu0 f32 cols 32 rows [1, 0]
    %hidden = plan.buffer "hidden" on %cpu0 f32 cols 32 rows [1, 0]
    plan.inst add on %gpu0.compute ["add_cuda"] (x = %h, y = %h, out = %h) for %why
    plan.inst copy on %gpu0.copy ["copy_cuda"] (x = %h, out = %hidden) for %over
    plan.bind input %in output %hidden
  }
  plan.phase "prefill" tokens 2 to 8 {
    %in = plan.buffer "in" on %cpu0 i32 cols 1 rows [1, 0]
    %hidden = plan.buffer "hidden" on %cpu0 f32 cols 32 rows [1, 0]
    plan.bind input %in output %hidden
  }
  plan.phase "logits" tokens 1 to 8 {
    %hidden = plan.buffer "in" on %cpu0 f32 cols 32 rows [1, 0]
    %h = plan.buffer "h" on %gpu0 f32 cols 32 rows [1, 0]
    %z = plan.buffer "z" on %gpu0 f32 cols 32 rows [1, 0]
    %out = plan.buffer "out" on %cpu0 f32 cols 32 rows [1, 0]
    plan.inst copy on %gpu0.copy ["copy_cuda"] (x = %hidden, out = %h) for %back
    plan.inst add on %gpu0.compute ["add_cuda"] (x = %h, y = %h, out = %z) for %head
    plan.inst copy on %gpu0.copy ["copy_cuda"] (x = %z, out = %out) for %head
    plan.bind input %hidden output %out
  }
}

// -----

// A decode step of several tokens is left alone: a token whose logits nobody
// wants would pay for the head. So is decode where it also runs prompts.

// CHECK-LABEL: plan.program
// CHECK: plan.phase "decode" tokens 1 to 2 {
plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 32 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 32 : i64} {
  %cpu0 = plan.device "cpu0" cpu isa "ref" memory 1000000
  plan.phase "decode" tokens 1 to 2 {
    %in = plan.buffer "in" on %cpu0 i32 cols 1 rows [1, 0]
    %out = plan.buffer "out" on %cpu0 f32 cols 32 rows [1, 0]
    plan.bind input %in output %out
  }
  plan.phase "prefill" tokens 3 to 8 {
    %in = plan.buffer "in" on %cpu0 i32 cols 1 rows [1, 0]
    %out = plan.buffer "out" on %cpu0 f32 cols 32 rows [1, 0]
    plan.bind input %in output %out
  }
  plan.phase "logits" tokens 1 to 8 {
    %in = plan.buffer "in" on %cpu0 f32 cols 32 rows [1, 0]
    %out = plan.buffer "out" on %cpu0 f32 cols 32 rows [1, 0]
    plan.bind input %in output %out
  }
}

// -----

// CHECK-LABEL: plan.program
// CHECK: plan.phase "decode" tokens 1 to 1 {
plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 32 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 32 : i64} {
  %cpu0 = plan.device "cpu0" cpu isa "ref" memory 1000000
  plan.phase "decode" tokens 1 to 1 {
    %in = plan.buffer "in" on %cpu0 i32 cols 1 rows [1, 0]
    %out = plan.buffer "out" on %cpu0 f32 cols 32 rows [1, 0]
    plan.bind input %in output %out
  }
  plan.phase "logits" tokens 1 to 8 {
    %in = plan.buffer "in" on %cpu0 f32 cols 32 rows [1, 0]
    %out = plan.buffer "out" on %cpu0 f32 cols 32 rows [1, 0]
    plan.bind input %in output %out
  }
}
