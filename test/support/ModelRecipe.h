//===- ModelRecipe.h - Models of tests, written as short texts --*- C++ -*-===//
//
// A recipe is a text of one statement a line (a line that ends in a backslash
// goes on; lines that begin with # are comments):
//
//   seed 7                          what all tensors are drawn from
//   let d 72                        $d stands for 72 from here on
//   include bytes.tokenizer         the statements of a file in the same folder
//   architecture llama              general.architecture, and what a key that
//                                   begins with a dot belongs to
//   key .block_count u32 3          a metadata key
//   key .kinds i32[] 3 1*4          an array: 3 1 1 1 1
//   key x.tokens string[$vocab] ... the first $vocab of the words behind
//   key x.merges text[] a b         an array of one string, "a b"
//   tensor blk.{0..2}.attn_q.weight F32 $d,96 gain 1.5
//                                   three tensors of 96 rows of $d elements
//
// {0..2} and {0,2} in a tensor's name or an array's word make one of each
// number. Distributions (see Draw.h): normal MEAN DEVIATION, gain G, uniform
// LEAST MOST, values V..., choices N, codes LEAST MOST.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SUPPORT_MODELRECIPE_H
#define MOE_TEST_SUPPORT_MODELRECIPE_H

#include "runtime/base/Status.h"
#include "test/support/GgufBuilder.h"

namespace moetest {

/// The model that the recipe at `path` describes. Errors name file and line.
moert::StatusOr<GgufBuilder> modelOfRecipe(const std::string &path);

} // namespace moetest

#endif // MOE_TEST_SUPPORT_MODELRECIPE_H
