//===- KvRows.h - Converts cache rows to and from floats --------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_KVROWS_H
#define MOE_KERNELS_CPU_KVROWS_H

#include "kernels/Ring.h"
#include "kernels/cpu/Simd.h"

#include <limits>

namespace moek {

/// Returns the tile of a Q8_0 cache that holds `row`.
MOE_INLINE uint8_t *kvTile(const KvView &kv, int64_t row) {
  return kv.data + row / kKvTile * kKvTile * kv.rowStride;
}

/// Returns where a row's codes of a block are in its tile: four codes, then
/// those of the tile's other rows.
MOE_INLINE uint8_t *kvCodes(const KvView &kv, int64_t row, int64_t block) {
  return kvTile(kv, row) + block * kKvBlock * kKvTile + row % kKvTile * 4;
}
MOE_INLINE float *kvScale(const KvView &kv, int64_t row, int64_t block) {
  return reinterpret_cast<float *>(kvTile(kv, row) + kvScaleOffset(kv.width)) +
         block * kKvTile + row % kKvTile;
}

/// The columns of a cache row that a query reads: with a latent (MLA), shared
/// by all heads, the key is the row and the value its first `value` columns;
/// otherwise each `group` of query heads has its own key and value. See
/// KvCache.h.
struct KvColumns {
  int64_t key, value; ///< Columns of a key and of a value.
  int64_t group;
  int64_t kvHeads = 0; ///< 0: latent rows, which all heads share.

  /// First columns of the key and the value that query head `head` reads,
  /// multiples of kKvBlock.
  MOE_INLINE int64_t keyAt(int64_t head) const {
    return head / group * gqaPaddedWidth(key);
  }
  MOE_INLINE int64_t valueAt(int64_t head) const {
    return kvHeads * gqaPaddedWidth(key) + head / group * gqaPaddedWidth(value);
  }
};

/// Converts `width` columns of a row of a Q8_0 cache to floats, from block
/// `first` on.
template <class S>
void readQ8Row(const KvView &kv, int64_t row, int64_t first, int64_t width,
               float *out) {
  for (int64_t begin = 0; begin < width; begin += kKvBlock) {
    const uint8_t *codes = kvCodes(kv, row, first + begin / kKvBlock);
    float scale = *kvScale(kv, row, first + begin / kKvBlock);
    uint8_t block[kKvBlock];
    for (int64_t i = 0; i < kKvBlock; i += 4)
      std::memcpy(block + i, codes + i * kKvTile, 4);
    // A separate loop with a constant number of steps, so that it is
    // vectorised.
    float whole[kKvBlock];
    float *to = width - begin < kKvBlock ? whole : out + begin;
    for (int64_t i = 0; i < kKvBlock; ++i)
      to[i] = scale * float(block[i] - int32_t(kKvZeroCode));
    if (to == whole)
      std::memcpy(out + begin, whole, size_t(width - begin) * sizeof(float));
  }
}

/// Converts `width` columns of the rows of positions [first, first + n) to
/// floats, from column `begin` on (a multiple of kKvBlock); output rows are
/// `stride` apart.
template <class S>
void readKvRows(const RingCache &cache, int64_t first, int64_t n, int64_t begin,
                int64_t width, float *out, int64_t stride) {
  const KvView &kv = cache.kv;
  if (kv.type == KvType::Q8_0) {
    for (int64_t k = 0; k < n; ++k)
      readQ8Row<S>(kv, cache.row(first + k), begin / kKvBlock, width,
                   out + k * stride);
    return;
  }
  withKvType<S>(kv.type, [&](auto load, auto, int bytes) {
    const uint8_t *columns = kv.data + begin * bytes;
    for (int64_t k = 0; k < n; ++k)
      readKvRow<S>(load, bytes, columns + cache.row(first + k) * kv.rowStride,
                   width, out + k * stride);
  });
}

/// Asks for `bytes` bytes of a row, so that they are in L2 when they are read.
/// The rows of a head are as far apart as all heads have columns, and the
/// prefetchers of CPUs follow them no further than to the end of a memory page.
MOE_INLINE void prefetchKvRow(const uint8_t *row, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64)
    __builtin_prefetch(row + at, 0, 2);
}

/// Quantises kKvBlock floats to 8 bits and returns their scale. As in the A8
/// encoding, a block whose largest value is below 1e-36 becomes zero, and one
/// with a NaN or an infinity has a NaN scale.
template <class S> float quantizeKvBlock(const float *x, int8_t *q) {
  bool allFinite = true;
  float biggest = 0;
  for (int64_t i = 0; i < kKvBlock; i += 32) {
    bool finite;
    float part = S::maxAbs32(x + i, finite);
    allFinite &= finite;
    biggest = part > biggest ? part : biggest;
  }
  if (!allFinite || biggest < 1e-36f) {
    std::memset(q, 0, size_t(kKvBlock));
    return allFinite ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
  int16_t sums[2];
  for (int64_t i = 0; i < kKvBlock; i += 32)
    S::quantize32(x + i, 127 / biggest, q + i, sums);
  return biggest / 127;
}

/// Writes block `block` of a row of a Q8_0 cache from kKvBlock floats.
template <class S>
void writeQ8Block(const KvView &kv, int64_t row, int64_t block,
                  const float *x) {
  alignas(64) int8_t q[kKvBlock];
  *kvScale(kv, row, block) = quantizeKvBlock<S>(x, q);
  uint8_t *codes = kvCodes(kv, row, block);
  static_assert(kKvZeroCode == 0x80, "adding it flips a byte's sign");
  for (int64_t i = 0; i < kKvBlock; i += 4) {
    uint32_t four;
    std::memcpy(&four, q + i, sizeof(four));
    four ^= 0x80808080;
    std::memcpy(codes + i * kKvTile, &four, sizeof(four));
  }
}

/// Calls body(i, from) for each block of `count` floats; the last block is
/// padded with zeros.
template <class Body>
MOE_INLINE void forKvBlocks(const float *x, int64_t count, Body body) {
  int64_t whole = count / kKvBlock;
  for (int64_t i = 0; i < whole; ++i)
    body(i, x + i * kKvBlock);
  if (int64_t rest = count - whole * kKvBlock; rest > 0) {
    alignas(64) float last[kKvBlock] = {};
    std::memcpy(last, x + whole * kKvBlock, size_t(rest) * sizeof(float));
    body(whole, static_cast<const float *>(last));
  }
}

/// Stores a NaN in column `column` (a multiple of kKvBlock) of a row, so that
/// the score of any query with the row is NaN.
template <class S> void markNaN(const KvView &kv, int64_t row, int64_t column) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  if (kv.type == KvType::Q8_0)
    *kvScale(kv, row, column / kKvBlock) = nan;
  else
    writeKv<S>(kv.type, &nan, 1,
               kv.data + row * kv.rowStride + kvRowBytes(kv.type, column));
}

/// Writes columns of one cache row, from `column` on (a multiple of kKvBlock),
/// in pieces that need not be whole blocks.
template <class S> class KvRowWriter {
public:
  KvRowWriter(const KvView &kv, int64_t row, int64_t column = 0)
      : kv(kv), row(row), done(column) {}

  /// Appends `count` elements: fill(begin, n, to) computes n of them, from
  /// element `begin` on, which is even.
  template <class Fill> MOE_INLINE void append(int64_t count, Fill fill) {
    for (int64_t begin = 0; begin < count; begin += kChunk) {
      int64_t n = count - begin < kChunk ? count - begin : kChunk;
      fill(begin, n, buffer + held);
      held += n;
      flush(false);
    }
  }
  /// Writes what is left, and zeros up to a whole block if `padded`. Returns
  /// whether all that was stored is finite.
  bool finish(bool padded) {
    if (int64_t rest = (done + held) % kKvBlock; padded && rest != 0)
      append(kKvBlock - rest, [](int64_t, int64_t n, float *to) {
        std::memset(to, 0, size_t(n) * sizeof(float));
      });
    flush(true);
    return S::reduceAdd(broken) == 0;
  }

private:
  /// Writes the buffered elements; for Q8_0 only whole blocks, unless `all`
  /// pads the last one.
  void flush(bool all) {
    if (kv.type != KvType::Q8_0) {
      uint8_t *to =
          kv.data + row * kv.rowStride + done * kvRowBytes(kv.type, 1);
      writeKv<S>(kv.type, buffer, held, to);
      readKv<S>(kv.type, to, held, buffer);
      forVectors<S>(0, held, [&](int64_t i, auto lanes) {
        broken = S::fma(lanes.load(buffer + i), S::zero(), broken);
      });
      done += held;
      held = 0;
      return;
    }
    int64_t from = 0;
    for (; from + kKvBlock <= held; from += kKvBlock)
      writeBlock((done + from) / kKvBlock, buffer + from);
    done += from;
    held -= from;
    std::memmove(buffer, buffer + from, size_t(held) * sizeof(float));
    if (all && held > 0) {
      std::memset(buffer + held, 0, size_t(kKvBlock - held) * sizeof(float));
      writeBlock(done / kKvBlock, buffer);
    }
  }
  void writeBlock(int64_t block, const float *x) {
    writeQ8Block<S>(kv, row, block, x);
    broken = S::fma(S::set(*kvScale(kv, row, block)), S::zero(), broken);
  }

  static constexpr int64_t kChunk = 256;
  const KvView &kv;
  int64_t row, done, held = 0;
  /// NaN if a stored element is NaN or infinite.
  typename S::Vec broken = S::zero();
  alignas(64) float buffer[kChunk + kKvBlock];
};

} // namespace moek

#endif // MOE_KERNELS_CPU_KVROWS_H
