//===- RandomRows.h - Rows of random weights in any format ------*- C++ -*-===//
//
// For models of full size that are made where they are measured. A row follows
// from two numbers, so that rows can be made in any order, and its bytes are
// the same on every machine.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SUPPORT_RANDOMROWS_H
#define MOE_TEST_SUPPORT_RANDOMROWS_H

#include "kernels/quant/Format.h"

#include <cstdint>

namespace moetest {

/// Writes row `row` of weight `weight` as a GGUF file has it to `out`, which
/// has rowBytes(format, cols) bytes. Rows of matrices have mean 0 and a
/// deviation near 1 / sqrt(cols), which keeps the size of what they multiply;
/// those of vectors (norms, biases) are 0.9 to 1.1 where the format has single
/// numbers. Formats without kernels become zeros.
void drawRow(moek::Format format, uint64_t weight, uint64_t row, int64_t cols,
             bool isVector, uint8_t *out);

} // namespace moetest

#endif // MOE_TEST_SUPPORT_RANDOMROWS_H
