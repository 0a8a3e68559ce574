//===- KvCodes.cuh - Codes of a Q8_0 cache as operands of mma ---*- C++ -*-===//
//
// A group of sixteen rows is copied as the cache has it (kernels/KvCache.h),
// where a word of 32 bits has four columns of a row. A thread converts codes
// minus 128 to BF16, in which they are exact; scores and weights are multiplied
// by scales as floats. So that words are loaded eight or sixteen bytes at a
// time without bank conflicts, rows and columns of a fragment stand for other
// rows and columns than mma's own, with lane = 4 g + c:
//   keys    Column 2 c + k of score tile j (of two in a group) is row
//           4 c + 2 k + j; a lane's k of a step are columns 4 c .. 4 c + 3.
//   values  Column n of sums tile 4 q + b is column 32 q + 4 n + b.
// Per element that takes two and a half instructions.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_KVCODES_CUH
#define MOE_KERNELS_CUDA_KVCODES_CUH

#include "kernels/cuda/KvHalf.cuh"

/// Bytes of a group's codes of 64 columns, and of its scales of them.
constexpr int kBlockCodes = kKvTile * kKvBlock, kBlockScales = kKvTile * 4;

/// Returns byte `bx` of x minus 128 and byte `by` of y minus 128 as two BF16
/// numbers, the first in the low half. A byte put into the mantissa of 2^23 is
/// a float, from which 2^23 + 128 is subtracted exactly.
MOE_DEVICE u32 codePair(u32 x, int bx, u32 y, int by) {
  constexpr float kZero = 8388608 + 128;
  float low = __int_as_float(int(__byte_perm(x, 0x4b000000, 0x7440 | bx)));
  float high = __int_as_float(int(__byte_perm(y, 0x4b000000, 0x7440 | by)));
  return __byte_perm(u32(__float_as_int(low - kZero)),
                     u32(__float_as_int(high - kZero)), 0x7632);
}

/// Operands B of a group's two score tiles for one step: columns 4 c .. 4 c + 3
/// of row 2 g (`even`) and of row 2 g + 1 (`odd`).
struct KeyCodes {
  u32 even[2], odd[2];
};
MOE_DEVICE KeyCodes keyCodes(const u8 *codes, int step) {
  int lane = threadIdx.x % 32;
  uint2 x = *(const uint2 *)(codes + (4 * step + lane % 4) * 64 + lane / 4 * 8);
  return {{codePair(x.x, 0, x.x, 1), codePair(x.x, 2, x.x, 3)},
          {codePair(x.y, 0, x.y, 1), codePair(x.y, 2, x.y, 3)}};
}

/// Loads codes of columns 32 `unit` + 4 g .. + 3 of rows 4 c .. 4 c + 3, a word
/// per row.
MOE_DEVICE uint4 valueCodes(const u8 *codes, int unit) {
  int lane = threadIdx.x % 32;
  return *(const uint4 *)(codes + (8 * unit + lane / 4) * 64 + lane % 4 * 16);
}

/// Loads the scales of rows 4 c .. 4 c + 3 of a group for one block of columns;
/// `scales` is where the block's sixteen scales begin.
MOE_DEVICE float4 scalesOf(const u8 *scales) {
  return *(const float4 *)(scales + threadIdx.x % 4 * 16);
}

/// Returns how many bytes to copy of sixteen bytes with number `chunk`, which
/// have four of the sixteen rows of a group: those of the group's first `left`
/// rows. The others become zero, because nothing may have been written there.
MOE_DEVICE int chunkBytes(int chunk, int left) {
  return min(max(left - chunk % 4 * 4, 0), 4) * 4;
}

#endif // MOE_KERNELS_CUDA_KVCODES_CUH
