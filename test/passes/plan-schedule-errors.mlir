// RUN: moe-opt %s --verify-diagnostics -plan-schedule

// Conflicts are detected by bytes, so buffers need offsets.
plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %cpu0 = plan.device "cpu0" cpu isa "ref" memory 1000000
  plan.phase "p" tokens 1 to 1 {
    // expected-error @+1 {{expected an offset; run plan-allocate first}}
    %a = plan.buffer "a" on %cpu0 f32 cols 16 rows [1, 0]
    plan.bind input %a output %a
  }
}
