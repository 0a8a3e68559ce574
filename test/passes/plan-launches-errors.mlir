// RUN: moe-opt %s -split-input-file -verify-diagnostics -plan-launches

// Grids have fewer than 65536 blocks, except in x.
plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 4 : i32,
    experts_used = 2 : i32, hidden = 256 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %gpu0 = plan.device "gpu0" cuda isa "cuda" memory 1000000 {arch = 89 : i32, multiprocessors = 4 : i32}
  %gpu0.compute = plan.queue compute of %gpu0
  %why = plan.explain "ffn_experts" layer 3 phase "p" on "gpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  plan.phase "prefill" tokens 1 to 40000 {
    %x = plan.buffer "x" on %gpu0 f32 cols 256 rows [2, 0] at 0
    %a = plan.buffer "a" on %gpu0 a8 cols 256 rows [2, 0] at 0
    // expected-error @+2 {{blk.3.ffn_experts: sm_89 cannot launch a grid of 1 x 80000 x 1 blocks for quantize in steps of up to 40000 tokens}}
    // expected-note @+1 {{place it on a CPU, or compile for smaller steps with --ubatch}}
    plan.inst quantize on %gpu0.compute ["quantize_cuda"] (x = %x, out = %a) for %why
    plan.bind input %x output %x
  }
}

// -----

// No kernel reads two formats or uses a CPU's gemm.
plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 4 : i32,
    experts_used = 2 : i32, hidden = 256 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %gpu0 = plan.device "gpu0" cuda isa "cuda" memory 1000000 {arch = 89 : i32, multiprocessors = 4 : i32}
  %gpu0.compute = plan.queue compute of %gpu0
  %gguf = plan.file model "m" bytes 1000000 header 0 hash "0123456789abcdef0123456789abcdef"
  %gate = plan.weight "g" in %gguf at 0 : 1x512x256xQ4_K strides [73728, 144]
  %up = plan.weight "u" in %gguf at 0 : 1x512x256xQ6_K strides [107520, 210]
  %why = plan.explain "ffn" phase "p" on "gpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  plan.phase "decode" tokens 1 to 1 {
    %x = plan.buffer "x" on %gpu0 f32 cols 256 rows [1, 0] at 0
    %y = plan.buffer "y" on %gpu0 f32 cols 512 rows [1, 0] at 1024
    // expected-error @+2 {{ffn: no GPU kernel for gate_up of Q4_K and Q6_K in steps of up to 1 token}}
    // expected-note @+1 {{place it on a CPU}}
    plan.inst gate_up on %gpu0.compute ["gate_up_cuda", "gemm_q4_k_cuda", "gemm_q6_k_cuda"] (act = %x, gate = %gate, up = %up, out = %y) {activation = 0} for %why
    // expected-error @+2 {{ffn: no GPU kernel for linear of Q4_K}}
    // expected-note @+1 {{place it on a CPU}}
    plan.inst linear on %gpu0.compute ["linear_cuda", "gemm_q4_k_ref"] (act = %x, w = %gate, out = %y) {accumulate = 0} for %why
    plan.bind input %x output %x
  }
}

// -----

// Text may contain meaningless numbers, which must not crash the pass.
plan.program attributes {
    architecture = "", compiler = "", context = 0 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 0 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 0 : i64} {
  %gpu0 = plan.device "gpu0" cuda isa "cuda" memory 0
  %gpu0.compute = plan.queue compute of %gpu0
  %why = plan.explain "op" phase "p" on "gpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  plan.phase "decode" tokens 1 to 1 {
    %x = plan.buffer "x" on %gpu0 f32 cols 1 rows [1, 0] at 0
    %i = plan.buffer "i" on %gpu0 i32 cols 1 rows [1, 0] at 64
    // expected-error @+2 {{cannot launch blocks of 0 threads for expert_group}}
    // expected-note @+1 {{place it on a CPU}}
    plan.inst expert_group on %gpu0.compute ["expert_group_cuda"] (ids = %i, offsets = %i, slots = %i) {experts = 0, top_k = 0, begin = 0, count = 0} for %why
    // expected-error @+2 {{cannot launch a grid of 1 x 0 x 0 blocks for combine_splits}}
    // expected-note @+1 {{place it on a CPU}}
    plan.inst combine_splits on %gpu0.compute ["combine_splits_cuda"] (x = %x, out = %x) {heads = 0, latent = 0, splits = 0, window = 0} for %why
    plan.bind input %x output %x
  }
}
