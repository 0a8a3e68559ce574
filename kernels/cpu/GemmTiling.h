//===- GemmTiling.h - Code that the SIMD gemms share ------------*- C++ -*-===//
//
// This code does not depend on the vector width. It is compiled once per
// instruction set, so everything has internal linkage: see
// kernels/CMakeLists.txt.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_GEMMTILING_H
#define MOE_KERNELS_CPU_GEMMTILING_H

#include "kernels/Activation.h"
#include "kernels/GemmFns.h"
#include "kernels/Scratch.h"
#include "kernels/cpu/Inline.h"

#include <cstring>
#include <type_traits>

/// Defines the gemm `name` as a call of the function template instance that
/// follows.
#define MOE_DEFINE_GEMM(name, ...)                                             \
  void moek::name(const uint8_t *w, int64_t wStride, int64_t rows,             \
                  const uint8_t *const *act, int64_t tokens, int64_t cols,     \
                  float *out, int64_t outStride) {                             \
    __VA_ARGS__(w, wStride, rows, act, tokens, cols, out, outStride);          \
  }

namespace moek {
namespace {

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

MOE_INLINE int32_t load32(const void *p) {
  int32_t value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

template <class T> MOE_INLINE int16_t load16(const T &from) {
  static_assert(sizeof(T) == 2);
  int16_t value;
  std::memcpy(&value, &from, sizeof(value));
  return value;
}

/// Caches to prefetch into, as __builtin_prefetch() takes them.
enum Cache { kIntoL2 = 2, kIntoL1 = 3 };

/// Prefetches the line at `bytes` from `from`, which may be past the end of the
/// matrix: prefetching memory that does not exist is no error, but forming a
/// pointer to it would be.
template <Cache Into>
MOE_INLINE void prefetch(const void *from, int64_t bytes) {
  __builtin_prefetch(
      reinterpret_cast<const char *>(uintptr_t(from) + uintptr_t(bytes)), 0,
      Into);
}

/// How far ahead the lines of a stream of panels are prefetched. The hardware
/// prefetcher alone starts anew in every page of 4 KiB. At this distance a line
/// has time to arrive from memory (2560 bytes at 20 GB/s: 128 ns). Measured
/// with one token, AVX2 and large pages: 4 KiB is 5 to 10 % slower for formats
/// that memory limits, 1 KiB is 6 to 17 % slower for those that compute longer
/// per line; the hint (into L1 or past L2) makes no difference.
constexpr int64_t kStreamAhead = 2560;

/// Prefetches `Bytes` bytes that are kStreamAhead past `at`.
template <int64_t Bytes> MOE_INLINE void prefetchStream(const uint8_t *at) {
#pragma GCC unroll 10
  for (int64_t line = 0; line < Bytes; line += 64)
    prefetch<kIntoL1>(at, kStreamAhead + line);
}

/// Called while the tile of rows at `w` processes its `step`th piece of `bytes`
/// bytes. Prefetches what the next tile reads into L1 and what the third tile
/// after it reads into L2. A tile reads its rows side by side, which hides from
/// the hardware that their bytes are contiguous in memory; prefetched in memory
/// order, they arrive at the rate of a plain copy. The memory past the last row
/// is mostly the rows of the next call.
MOE_INLINE void prefetchAhead(const uint8_t *w, int64_t tileBytes, int64_t step,
                              int64_t bytes) {
  int64_t near = tileBytes + step * bytes;
#pragma GCC unroll 32
  for (int64_t line = 0; line < bytes; line += 64) {
    prefetch<kIntoL1>(w, near + line);
    prefetch<kIntoL2>(w, near + 3 * tileBytes + line);
  }
}

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

template <int Size> using SizeConstant = std::integral_constant<int, Size>;

template <int Max, class Fn>
MOE_INLINE void callWithSize(int64_t size, Fn &&fn) {
  if constexpr (Max > 1) {
    if (size < Max)
      return callWithSize<Max - 1>(size, fn);
  }
  fn(SizeConstant<Max>());
}

/// Splits `tokens` into as few tiles of at most `Max` as possible, of nearly
/// equal size, and calls fn(SizeConstant of a tile, its first token).
template <int Max, class Fn>
MOE_INLINE void forTokenTiles(int64_t tokens, Fn &&fn) {
  int64_t left = (tokens + Max - 1) / Max;
  for (int64_t t = 0; t < tokens; --left) {
    int64_t size = (tokens - t + left - 1) / left;
    callWithSize<Max>(size, [&](auto constant) { fn(constant, t); });
    t += size;
  }
}

/// Calls fn(SizeConstant of a tile, its first row) for tiles of Size rows, and
/// of one row for the rest.
template <int Size, class Fn>
MOE_INLINE void forTileRows(int64_t rows, Fn &&fn) {
  int64_t r = 0;
  for (; r + Size <= rows; r += Size)
    fn(SizeConstant<Size>(), r);
  for (; r < rows; ++r)
    fn(SizeConstant<1>(), r);
}

/// One A8 row (kernels/Activation.h).
struct A8Row {
  const int8_t *q;
  const float *scale;
  const int16_t *sum;
};

MOE_INLINE A8Row a8Row(const uint8_t *row, int64_t cols) {
  // The offsets are written out, because calls of Activation.h's functions
  // might be compiled for this instruction set (see the file's comment).
  constexpr int64_t kScaleBytes = sizeof(float);
  static_assert(kA8Block == 32 && a8ScaleOffset(64) == 64 &&
                a8SumOffset(64) == 64 + 64 / 32 * kScaleBytes);
  return {
      reinterpret_cast<const int8_t *>(row),
      reinterpret_cast<const float *>(row + cols),
      reinterpret_cast<const int16_t *>(row + cols + cols / 32 * kScaleBytes)};
}

//===----------------------------------------------------------------------===//
// Panels: see the Int8Panel.h of each instruction set. F is a format's traits.
//===----------------------------------------------------------------------===//

constexpr int kPanelCols = 512; ///< Columns that are expanded at a time.
/// Tokens that one expansion of a panel serves: as many as an op's kernel
/// passes.
constexpr int kPanelTokens = int(kTokenTile);
/// Rows that are expanded into panels together, like the kernels' tiles.
constexpr int64_t kPanelRows = 64;

/// Divides a product into blocks of at most kPanelRows by kPanelTokens and
/// calls fn(first row, rows, first token, tokens) for each.
template <class Fn>
MOE_INLINE void forBlocks(int64_t rows, int64_t tokens, Fn &&fn) {
  for (int64_t r = 0; r < rows; r += kPanelRows)
    for (int64_t t = 0; t < tokens; t += kPanelTokens)
      fn(r, rows - r < kPanelRows ? rows - r : kPanelRows, t,
         tokens - t < kPanelTokens ? tokens - t : kPanelTokens);
}

/// Prefetches into L2, in memory order, the rows after those that are being
/// expanded: a panel takes a few blocks from each of many rows, a pattern that
/// no hardware prefetcher recognises.
class NextRows {
public:
  NextRows(const uint8_t *w, int64_t bytes) : at_(uintptr_t(w) + bytes) {}

  MOE_INLINE void fetch(int64_t bytes) {
    for (int64_t line = 0; line < bytes; line += 64)
      prefetch<kIntoL2>(reinterpret_cast<const void *>(at_), line);
    at_ += uintptr_t(bytes);
  }

private:
  uintptr_t at_;
};

/// The factors and terms that the tokens' activations contribute, per sub-block
/// of a panel's columns.
template <class F> struct alignas(64) TokenTable {
  static constexpr int kZeroSub = F::kZero ? F::kSub : kPanelCols;
  static constexpr int kOffsetSub = F::kOffsetSub ? F::kOffsetSub : kPanelCols;
  float scale[kPanelTokens][kPanelCols / 32];
  /// -kZero * sum of q, or another initial value of an instruction set's sums.
  int32_t start[kPanelTokens][kPanelCols / kZeroSub];
  /// kOffsetSign * scale * sum of q.
  float offset[kPanelTokens][kPanelCols / kOffsetSub];
};

/// Sum over `Sub` columns of A8, from the stored sums of 16.
template <int Sub> MOE_INLINE int32_t sumOf(const int16_t *sums, int64_t i) {
  return Sub == 16 ? sums[i] : sums[2 * i] + sums[2 * i + 1];
}

/// Calls fill(count as a constant) for a full panel, else fill(count): loops of
/// a constant length become vectors. With 512 tokens, filling tables would
/// otherwise take a tenth of a gemm's time.
template <class Fill> MOE_INLINE void fillColumns(int64_t count, Fill fill) {
  if (count == kPanelCols)
    fill(std::integral_constant<int64_t, kPanelCols>());
  else
    fill(count);
}

/// Fills the table; starts(row, firstCol, count, to) fills a token's
/// TokenTable::start.
template <class F, class Starts>
MOE_INLINE void fillTable(TokenTable<F> &table, const uint8_t *const *act,
                          int64_t tokens, int64_t cols, int64_t firstCol,
                          int64_t count, Starts starts) {
  for (int64_t t = 0; t < tokens; ++t) {
    A8Row row = a8Row(act[t], cols);
    const float *scale = row.scale + firstCol / 32;
    const int16_t *sums = row.sum + firstCol / 16;
    fillColumns(count, [&](auto n) {
      for (int64_t i = 0; i < n / 32; ++i)
        table.scale[t][i] = scale[i];
      if constexpr (F::kOffsetSub != 0)
        for (int64_t i = 0; i < n / F::kOffsetSub; ++i)
          table.offset[t][i] =
              scale[i * F::kOffsetSub / 32] *
              float(F::kOffsetSign * sumOf<F::kOffsetSub>(sums, i));
    });
    if constexpr (F::kZero != 0)
      starts(row, firstCol, count, table.start[t]);
  }
}

/// Starts are `start` - kZero * sum of q.
template <class F>
void fillTable(TokenTable<F> &table, const uint8_t *const *act, int64_t tokens,
               int64_t cols, int64_t firstCol, int64_t count,
               int32_t start = 0) {
  fillTable(table, act, tokens, cols, firstCol, count,
            [start](const A8Row &row, int64_t first, int64_t all, int32_t *to) {
              fillColumns(all, [&](auto n) {
                for (int64_t i = 0; i < n / F::kSub; ++i)
                  to[i] = start -
                          F::kZero * sumOf<F::kSub>(row.sum + first / 16, i);
              });
            });
}

} // namespace
} // namespace moek

#endif // MOE_KERNELS_CPU_GEMMTILING_H
