// RUN: moe-opt %s --verify-diagnostics --split-input-file

func.func @parts(%x: tensor<?x64xf32>, %s: tensor<?x100xf32>, %w: tensor<64xf32>) {
  // expected-error @below {{expected stack columns a multiple of 64 x columns, got 100}}
  %y = moe.residual_mix %x, %s, %w {eps = 1.0e-05} : tensor<?x64xf32>, tensor<?x100xf32>, tensor<64xf32>
  return
}

// -----

func.func @many(%x: tensor<?x1xf32>, %s: tensor<?x64xf32>, %w: tensor<1xf32>) {
  // expected-error @below {{expected rows on the stack from 1 to 63, got 64}}
  %y = moe.residual_mix %x, %s, %w {eps = 1.0e-05} : tensor<?x1xf32>, tensor<?x64xf32>, tensor<1xf32>
  return
}

// -----

func.func @weight(%x: tensor<?x64xf32>, %w: tensor<32xf32>) {
  // expected-error @below {{expected weight length 64 to match x columns, got 32}}
  %y = moe.residual_mix %x, %x, %w {eps = 1.0e-05} : tensor<?x64xf32>, tensor<?x64xf32>, tensor<32xf32>
  return
}

// -----

func.func @narrow(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected result columns 128 (x columns + y columns), got 64}}
  %y = moe.concat %x, %x : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @soft(%x: tensor<?x64xf32>, %u: tensor<32x64xf32>, %d: tensor<64x32xf32>) {
  // expected-error @below {{expected a soft_limit with a limit, and without clamps_activated}}
  %y = moe.ffn %x, %u, %u, %d {soft_limit = 25.0} : (tensor<?x64xf32>, tensor<32x64xf32>, tensor<32x64xf32>, tensor<64x32xf32>) -> tensor<?x64xf32>
  return
}
