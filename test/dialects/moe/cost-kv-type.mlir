// RUN: moe-opt %s --moe-print-cost="tokens=2 context=6" -o /dev/null | FileCheck %s

// Each cache has its own element type; bf16 is the default.
module {
  func.func @cache(%q: tensor<?x80xf32>, %a: tensor<?x40xf32>, %norm: tensor<32xf32>) -> tensor<?x64xf32> {
    // 2 * 40 * 4 written.
    // CHECK: moe.mla_latent {{.*}} kv=320
    %kv = moe.mla_latent %a, %norm {layer = 0, eps = 1.0e-6, rope = #moe.rope<dim = 8, base = 1.0e4>} : (tensor<?x40xf32>, tensor<32xf32>) -> !moe.kv<40, f32>
    // 8 * 40 * 4 read.
    // CHECK: moe.latent_attention {{.*}} kv=1280
    %o = moe.latent_attention %q, %kv {heads = 2, latent = 32, rope = 8, scale = 0.25} : (tensor<?x80xf32>, !moe.kv<40, f32>) -> tensor<?x64xf32>
    return %o : tensor<?x64xf32>
  }
  func.func @other(%q: tensor<?x80xf32>, %a: tensor<?x40xf32>, %norm: tensor<32xf32>) -> tensor<?x64xf32> {
    // 64 quantised values and a scale, padded: 2 * 68.
    // CHECK: moe.mla_latent {{.*}} kv=136
    %kv = moe.mla_latent %a, %norm {layer = 1, eps = 1.0e-6, rope = #moe.rope<dim = 8, base = 1.0e4>} : (tensor<?x40xf32>, tensor<32xf32>) -> !moe.kv<40, q8_0>
    // CHECK: moe.latent_attention {{.*}} kv=544
    %o = moe.latent_attention %q, %kv {heads = 2, latent = 32, rope = 8, scale = 0.25} : (tensor<?x80xf32>, !moe.kv<40, q8_0>) -> tensor<?x64xf32>
    return %o : tensor<?x64xf32>
  }
}
