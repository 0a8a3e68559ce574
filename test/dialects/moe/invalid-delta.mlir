// RUN: moe-opt %s --verify-diagnostics --split-input-file

func.func @heads(%x: tensor<?x76xf32>, %b: tensor<?x4xf32>, %conv: tensor<76x4xf32>, %v: tensor<4xf32>) {
  // expected-error @below {{expected heads}}
  %y = moe.delta_net %x beta %b alpha %b conv %conv decay %v, %v {layer = 0, key_heads = 3, heads = 4, key = 8, value = 11, eps = 1.0e-06} : (tensor<?x76xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<76x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x44xf32>
  return
}

// -----

func.func @columns(%x: tensor<?x76xf32>, %b: tensor<?x4xf32>, %conv: tensor<76x4xf32>, %v: tensor<4xf32>) {
  // expected-error @below {{expected x columns 72 (2 * key_heads * key + heads * value), got 76}}
  %y = moe.delta_net %x beta %b alpha %b conv %conv decay %v, %v {layer = 0, key_heads = 2, heads = 4, key = 8, value = 10, eps = 1.0e-06} : (tensor<?x76xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<76x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x40xf32>
  return
}

// -----

func.func @taps(%x: tensor<?x76xf32>, %b: tensor<?x4xf32>, %conv: tensor<76x9xf32>, %v: tensor<4xf32>) {
  // expected-error @below {{expected conv columns from 1 to 8, got 9}}
  %y = moe.delta_net %x beta %b alpha %b conv %conv decay %v, %v {layer = 0, key_heads = 2, heads = 4, key = 8, value = 11, eps = 1.0e-06} : (tensor<?x76xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<76x9xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x44xf32>
  return
}

// -----

func.func @decay(%x: tensor<?x76xf32>, %b: tensor<?x4xf32>, %conv: tensor<76x4xf32>, %v: tensor<4xf32>, %a: tensor<2xf32>) {
  // expected-error @below {{expected a length 4 to match heads, got 2}}
  %y = moe.delta_net %x beta %b alpha %b conv %conv decay %a, %v {layer = 0, key_heads = 2, heads = 4, key = 8, value = 11, eps = 1.0e-06} : (tensor<?x76xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<76x4xf32>, tensor<2xf32>, tensor<4xf32>) -> tensor<?x44xf32>
  return
}

// -----

func.func @offset(%x: tensor<?x30xf32>) {
  // expected-error @below {{expected offset from 0 to 2, got 3}}
  %y = moe.regroup %x {groups = 3, offset = 3, parts = array<i64: 5, 3>} : (tensor<?x30xf32>) -> tensor<?x24xf32>
  return
}

// -----

func.func @parts(%x: tensor<?x30xf32>) {
  // expected-error @below {{expected number of parts from 1 to 3, got 4}}
  %y = moe.regroup %x {groups = 3, offset = 0, parts = array<i64: 1, 1, 1, 1>} : (tensor<?x30xf32>) -> tensor<?x12xf32>
  return
}

// -----

func.func @nobeta(%x: tensor<?x76xf32>, %b: tensor<?x4xf32>, %conv: tensor<76x4xf32>, %v: tensor<4xf32>) {
  // expected-error @below {{expected beta, or without it sums}}
  %y = moe.delta_net %x alpha %b conv %conv decay %v, %v {layer = 0, key_heads = 2, heads = 4, key = 8, value = 11, eps = 1.0e-06} : (tensor<?x76xf32>, tensor<?x4xf32>, tensor<76x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x44xf32>
  return
}

// -----

func.func @skip(%x: tensor<?x76xf32>, %b: tensor<?x4xf32>, %conv: tensor<76x4xf32>, %v: tensor<4xf32>) {
  // expected-error @below {{has a skip, which comes with sums}}
  %y = moe.delta_net %x beta %b alpha %b conv %conv decay %v, %v skip %v {layer = 0, key_heads = 2, heads = 4, key = 8, value = 11, eps = 1.0e-06} : (tensor<?x76xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<76x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x44xf32>
  return
}

// -----

func.func @floor(%x: tensor<?x76xf32>, %b: tensor<?x4xf32>, %conv: tensor<76x4xf32>, %v: tensor<4xf32>) {
  // expected-error @below {{expected a floor of at most 0}}
  %y = moe.delta_net %x beta %b alpha %b conv %conv decay %v, %v {layer = 0, key_heads = 2, heads = 4, key = 8, value = 11, eps = 1.0e-06, floor = 1.0} : (tensor<?x76xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<76x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x44xf32>
  return
}

// -----

func.func @two(%x: tensor<?x76xf32>, %b: tensor<?x4xf32>, %conv: tensor<76x4xf32>, %v: tensor<4xf32>) {
  // expected-error @below {{expected 1 or 3 parts of x, got 2}}
  %y = moe.delta_net %x, %x beta %b alpha %b conv %conv decay %v, %v {layer = 0, key_heads = 2, heads = 4, key = 8, value = 11, eps = 1.0e-06} : (tensor<?x76xf32>, tensor<?x76xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<76x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x44xf32>
  return
}

// -----

func.func @convs(%x: tensor<?x76xf32>, %b: tensor<?x4xf32>, %conv: tensor<76x4xf32>, %v: tensor<4xf32>) {
  // expected-error @below {{expected number of convs 1 to match the parts of x, got 2}}
  %y = moe.delta_net %x beta %b alpha %b conv %conv, %conv decay %v, %v {layer = 0, key_heads = 2, heads = 4, key = 8, value = 11, eps = 1.0e-06} : (tensor<?x76xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<76x4xf32>, tensor<76x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x44xf32>
  return
}

// -----

func.func @channels(%x: tensor<?x76xf32>, %b: tensor<?x4xf32>, %conv: tensor<76x4xf32>, %v: tensor<4xf32>) {
  // expected-error @below {{expected alpha columns 32 (heads * key), got 76}}
  %y = moe.delta_net %x beta %b alpha %x conv %conv decay %v, %v {layer = 0, key_heads = 2, heads = 4, key = 8, value = 11, eps = 1.0e-06} : (tensor<?x76xf32>, tensor<?x4xf32>, tensor<?x76xf32>, tensor<76x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x44xf32>
  return
}

// -----

func.func @bias(%x: tensor<?x76xf32>, %b: tensor<?x4xf32>, %conv: tensor<76x4xf32>, %v: tensor<4xf32>) {
  // expected-error @below {{expected bias length 76 to match x columns, got 4}}
  %y = moe.delta_net %x beta %b alpha %b conv %conv bias %v decay %v, %v {layer = 0, key_heads = 2, heads = 4, key = 8, value = 11, eps = 1.0e-06} : (tensor<?x76xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<76x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x44xf32>
  return
}

// -----

func.func @convolution(%x: tensor<?x72xf32>, %conv: tensor<71x3xf32>) {
  // expected-error @below {{expected conv rows 72 to match x columns, got 71}}
  %y = moe.short_conv %x conv %conv {layer = 0} : (tensor<?x72xf32>, tensor<71x3xf32>) -> tensor<?x72xf32>
  return
}

// -----

func.func @far(%x: tensor<?x72xf32>, %conv: tensor<72x3xf32>) {
  // expected-error @below {{expected (conv columns - 1) * dilation from 0 to 32, got 34}}
  %y = moe.short_conv %x conv %conv {layer = 0, dilation = 17} : (tensor<?x72xf32>, tensor<72x3xf32>) -> tensor<?x72xf32>
  return
}
