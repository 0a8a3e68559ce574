// RUN: moe-opt %s -plan-overhead | FileCheck %s

// Queues run at the same time where events allow it: "a" and "b" do, and "c"
// waits for both. The sum is 6 seconds, and the step takes 4.
module attributes {moe.target = {name = "two", devices = [
    {name = "cpu1", kind = "cpu", isa = "avx2", memory_bytes = 1000000000 : i64, read_bps = 1.0e9 : f64},
    {name = "cpu0", kind = "cpu", isa = "avx2", memory_bytes = 1000000000 : i64, read_bps = 1.0e9 : f64}]}} {
plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %cpu0 = plan.device "cpu0" cpu isa "avx2" memory 1000000
  %cpu1 = plan.device "cpu1" cpu isa "avx2" memory 1000000
  %cpu0.compute = plan.queue compute of %cpu0
  %cpu1.compute = plan.queue compute of %cpu1
  %a = plan.explain "a" phase "decode" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 3.0
  %b = plan.explain "b" phase "decode" on "cpu1" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 2.0
  %c = plan.explain "c" phase "decode" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 1.0
  // CHECK: plan.explain "overhead" phase "decode" on "cpu1"
  // CHECK: plan.explain "overhead" phase "decode" on "cpu0"
  // CHECK: plan.explain "overlap" phase "decode" on "all"
  // CHECK-SAME: seconds -2.000000e+00
  // A phase with one queue has no overlap.
  // CHECK-NOT: "overlap" phase "logits"
  plan.phase "decode" tokens 1 to 1 {
    %x = plan.buffer "x" on %cpu0 f32 cols 16 rows [1, 0] at 0
    %y = plan.buffer "y" on %cpu1 f32 cols 16 rows [1, 0] at 0
    %z = plan.buffer "z" on %cpu0 f32 cols 16 rows [1, 0] at 64
    plan.inst add on %cpu0.compute ["add_avx2"] (x = %x, y = %x, out = %x) for %a
    %done = plan.inst add on %cpu1.compute ["add_avx2"] (x = %y, y = %y, out = %y) signals for %b
    plan.inst add on %cpu0.compute ["add_avx2"] (x = %x, y = %x, out = %z) after %done for %c
    plan.bind input %x output %z
  }
  plan.phase "logits" tokens 1 to 1 {
    %x = plan.buffer "x" on %cpu0 f32 cols 16 rows [1, 0] at 0
    plan.inst add on %cpu0.compute ["add_avx2"] (x = %x, y = %x, out = %x) for %a
    plan.bind input %x output %x
  }
}
}
