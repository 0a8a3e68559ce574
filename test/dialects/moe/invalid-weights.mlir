// RUN: moe-opt %s -verify-diagnostics -split-input-file

// Weights: every error names the symbol and says what was expected and found.

// expected-error @below {{'moe.weight' op @w: expected weight columns a multiple of 256 (the block of its format), got 1408}}
moe.weight @w : tensor<4x1408x!moe.q4_k> = #moe.tensor<file = 0, offset = 0>

// -----

// expected-error @below {{@w: expected weight elements of a format with kernels, got 'i8'}}
moe.weight @w : tensor<4x32xi8> = #moe.tensor<file = 0, offset = 0>

// -----

// expected-error @below {{@w: expected weight dimensions known and above zero, got [?, 32]}}
moe.weight @w : tensor<?x32xf32> = #moe.tensor<file = 0, offset = 0>

// -----

// expected-error @below {{@w: expected weight dimensions known and above zero, got [4, 0]}}
moe.weight @w : tensor<4x0xf32> = #moe.tensor<file = 0, offset = 0>

// -----

// expected-error @below {{@w: expected weight bytes below 2^62, got dimensions [4611686018427387904, 32]}}
moe.weight @w : tensor<4611686018427387904x32xf32> = #moe.tensor<file = 0, offset = 0>

// -----

// expected-error @below {{expected offset from 0 to 9223372036854775807, got -1}}
moe.weight @w : tensor<4x32xf32> = #moe.tensor<file = 0, offset = -1>

// -----

// expected-error @below {{expected file from 0 to 2147483647, got -1}}
moe.weight @w : tensor<4x32xf32> = #moe.tensor<file = -1, offset = 0>

// -----

moe.weight @v : tensor<4x32xf32> = #moe.tensor<file = 0, offset = 0>
// expected-error @below {{@w: expected 0 parts, got 1}}
moe.weight @w : tensor<4x32xf32> = #moe.tensor<file = 0, offset = 0> of [@v]

// -----

// Names are unique.
// expected-note @below {{see existing symbol definition here}}
moe.weight @w : tensor<4x32xf32> = #moe.tensor<file = 0, offset = 0>
// expected-error @below {{redefinition of symbol named 'w'}}
moe.weight @w : tensor<4x32xf32> = #moe.tensor<file = 0, offset = 512>

// -----

//===--- symbols ----------------------------------------------------------===//

func.func @missing() {
  // expected-error @below {{'moe.weight_ref' op expected @w to be a moe.weight of the module, got none}}
  %w = moe.weight_ref @w : tensor<4x32xf32>
  return
}

// -----

// A symbol that is no weight.
func.func @no_weight() {
  // expected-error @below {{expected @no_weight to be a moe.weight of the module, got none}}
  %w = moe.weight_ref @no_weight : tensor<4x32xf32>
  return
}

// -----

moe.weight @w : tensor<4x32xf32> = #moe.tensor<file = 0, offset = 0>
func.func @type() {
  // expected-error @below {{expected @w of type 'tensor<4x32xf32>', got 'tensor<4x64xf32>'}}
  %w = moe.weight_ref @w : tensor<4x64xf32>
  return
}

// -----

// expected-error @below {{@w: expected part @v to be a moe.weight of the module, got none}}
moe.weight @w : tensor<4x32xf32> = #moe.slice<dim = 0, begin = 0> of [@v]

// -----

// expected-error @below {{@w: expected parts that do not contain it, got a cycle}}
moe.weight @w : tensor<4x32xf32> = #moe.slice<dim = 0, begin = 0> of [@w]

// -----

// expected-error @below {{@a: expected parts that do not contain it, got a cycle}}
moe.weight @a : tensor<4x32xf32> = #moe.stack of [@b]
moe.weight @b : tensor<4x32xf32> = #moe.slice<dim = 0, begin = 0> of [@a]

// -----

//===--- slices -----------------------------------------------------------===//

moe.weight @w : tensor<8x32xf32> = #moe.tensor<file = 0, offset = 0>
// expected-error @below {{@s: expected begin from 0 to 4, got 5}}
moe.weight @s : tensor<4x32xf32> = #moe.slice<dim = 0, begin = 5> of [@w]

// -----

moe.weight @w : tensor<8x32xf32> = #moe.tensor<file = 0, offset = 0>
// expected-error @below {{@s: expected the part's other dimensions = [4, 32], got [4, 16]}}
moe.weight @s : tensor<4x16xf32> = #moe.slice<dim = 0, begin = 0> of [@w]

// -----

moe.weight @w : tensor<8x32xf32> = #moe.tensor<file = 0, offset = 0>
// expected-error @below {{@s: expected elements of the part's type 'f32', got 'bf16'}}
moe.weight @s : tensor<4x32xbf16> = #moe.slice<dim = 0, begin = 0> of [@w]

// -----

moe.weight @w : tensor<8x32xf32> = #moe.tensor<file = 0, offset = 0>
// expected-error @below {{@s: expected rank from 2 to 2, got 1}}
moe.weight @s : tensor<4xf32> = #moe.slice<dim = 0, begin = 0> of [@w]

// -----

// Columns of a matrix are not contiguous.
moe.weight @w : tensor<8x32xf32> = #moe.tensor<file = 0, offset = 0>
// expected-error @below {{@s: expected dim from 0 to 0, got 1}}
moe.weight @s : tensor<8x16xf32> = #moe.slice<dim = 1, begin = 0> of [@w]

// -----

moe.weight @w : tensor<64x!moe.q8_0> = #moe.tensor<file = 0, offset = 0>
// expected-error @below {{@s: expected begin a multiple of 32 (the block of its format), got 16}}
moe.weight @s : tensor<32x!moe.q8_0> = #moe.slice<dim = 0, begin = 16> of [@w]

// -----

// expected-error @below {{@s: expected 1 part, got 0}}
moe.weight @s : tensor<4x32xf32> = #moe.slice<dim = 0, begin = 0>

// -----

//===--- stacks -----------------------------------------------------------===//

moe.weight @w : tensor<8x32xf32> = #moe.tensor<file = 0, offset = 0>
// expected-error @below {{@s: expected parts of 3 matrices in all, got 2}}
moe.weight @s : tensor<3x8x32xf32> = #moe.stack of [@w, @w]

// -----

// A weight with several matrices counts as that many; biases count by rows.
moe.weight @w : tensor<2x8x32xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @v : tensor<8x32xf32> = #moe.tensor<file = 0, offset = 4096>
// expected-error @below {{@s: expected parts of 2 matrices in all, got 3}}
moe.weight @s : tensor<2x8x32xf32> = #moe.stack of [@w, @v]

// -----

moe.weight @w : tensor<2x32xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @v : tensor<3x32xf32> = #moe.tensor<file = 0, offset = 256>
// expected-error @below {{@s: expected parts of 4 rows in all, got 5}}
moe.weight @s : tensor<4x32xf32> = #moe.stack of [@w, @v]

// -----

moe.weight @w : tensor<8x32xf32> = #moe.tensor<file = 0, offset = 0>
// expected-error @below {{@s: expected parts of shape [rows, columns] = [4, 32], got [8, 32]}}
moe.weight @s : tensor<1x4x32xf32> = #moe.stack of [@w]

// -----

//===--- computed weights -------------------------------------------------===//

moe.weight @wq : tensor<50x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @wk : tensor<2x16x32xf32> = #moe.tensor<file = 0, offset = 0>
// expected-error @below {{@w: expected W_Q of shape [1, heads * (nope + rope), inputs] = [1, 48, 64], got [1, 50, 64]}}
moe.weight @w : tensor<80x64xbf16> = #moe.fold_query<heads = 2, nope = 16, rope = 8, latent = 32> of [@wq, @wk]

// -----

moe.weight @wq : tensor<48x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @wk : tensor<2x16x32xf32> = #moe.tensor<file = 0, offset = 0>
// expected-error @below {{@w: expected W_UK of shape [heads, latent, nope] = [2, 32, 16], got [2, 16, 32]}}
moe.weight @w : tensor<80x64xbf16> = #moe.fold_query<heads = 2, nope = 16, rope = 8, latent = 32, k_transposed = true> of [@wq, @wk]

// -----

moe.weight @wq : tensor<48x64xf32> = #moe.tensor<file = 0, offset = 0>
moe.weight @wk : tensor<2x16x32xf32> = #moe.tensor<file = 0, offset = 0>
// expected-error @below {{@w: expected a result of shape [1, heads * (latent + rope), inputs] = [1, 80, 64], got [1, 48, 64]}}
moe.weight @w : tensor<48x64xbf16> = #moe.fold_query<heads = 2, nope = 16, rope = 8, latent = 32> of [@wq, @wk]

// -----

moe.weight @wq : tensor<48x64xf32> = #moe.tensor<file = 0, offset = 0>
// expected-error @below {{@w: expected 2 parts, got 1}}
moe.weight @w : tensor<80x64xbf16> = #moe.fold_query<heads = 2, nope = 16, rope = 8, latent = 32> of [@wq]

// -----

// expected-error @below {{expected heads from 1 to 16777216, got 0}}
moe.weight @w : tensor<80x64xbf16> = #moe.fold_query<heads = 0, nope = 16, rope = 8, latent = 32>

// -----

moe.weight @w : tensor<2x16x32xf32> = #moe.tensor<file = 0, offset = 0>
// expected-error @below {{@t: expected [matrices, columns, rows] of the part = [2, 32, 16], got [2, 16, 32]}}
moe.weight @t : tensor<2x16x32xf32> = #moe.transpose of [@w]

// -----

// 16 rows give columns of 16 elements: half a block.
moe.weight @w : tensor<2x16x32xf32> = #moe.tensor<file = 0, offset = 0>
// expected-error @below {{@t: expected weight columns a multiple of 32 (the block of its format), got 16}}
moe.weight @t : tensor<2x32x16x!moe.q8_0> = #moe.transpose of [@w]
