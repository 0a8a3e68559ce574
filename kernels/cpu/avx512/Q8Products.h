//===- Q8Products.h - Integer products of attention, AVX-512 ----*- C++ -*-===//
//
// Computes scores and weighted sums as 8-bit products.
//
// 1. Scores: queries, quantised per block of kKvBlock, times codes of 2 tiles x
//    4 queries: 8 accumulators, 6 loads for 8 vpdpbusd.
// 2. Weights p = exp(score - maximum) become 15-bit words in units of the
//    group. A byte reaches kBulk times the mean of all but the largest weights:
//    a few rows, often the first, may have most of the weight, and the others
//    must not be rounded to nothing beside them. The few words larger than a
//    byte go into a second, sparse product of their upper bytes.
// 3. Sums: per block of columns the group's codes are transposed into quads of
//    rows, and each row's scale is multiplied into a query's words. So a sum
//    over rows is a sum of integers, for 4 queries x 4 vectors of columns.
//
// DeepSeek-V2-Lite: the 576 + 512 columns of a latent cache row take 17
// vpdpbusd per head, a group takes 153 KiB of L2, a transposed block 16 KiB of
// L1. The next group is prefetched from memory meanwhile: 2448 lines, one with
// each 30 vpdpbusd or so. Decompressed for a head, 192 + 128 columns take 5
// vpdpbusd per query, and a group takes 85 KiB.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX512_Q8PRODUCTS_H
#define MOE_KERNELS_CPU_AVX512_Q8PRODUCTS_H

#include "kernels/cpu/Q8Group.h"
#include "kernels/cpu/avx512/Simd.h"

namespace moek::avx512 {

class Q8Products : public Q8Group<Simd, int8_t> {
public:
  Q8Products(const Q8Shape &shape, std::byte *scratch)
      : Q8Group(shape, scratch) {
    take(large, shape.mostTogether * kQuads);
    take(largeCount, shape.mostTogether);
    take(low, kQueries * kGroup);
    take(high, kQueries * kGroup);
  }

  /// Quantises `count` columns of query i, from its block `first` on.
  void encode(int64_t i, int64_t first, const float *x, int64_t count) {
    forKvBlocks(x, count, [&](int64_t b, const float *from) {
      int64_t at = i * shape.keyBlocks + first + b;
      int8_t *q = query + at * kKvBlock;
      queryScale[at] = shape.scale * quantizeKvBlock<Simd>(from, q);
      static_assert(kKvBlock == 64, "a vector");
      queryStart[at] = -_mm512_reduce_add_epi32(
          _mm512_dpbusd_epi32(_mm512_setzero_si512(),
                              _mm512_set1_epi8(char(kKvZeroCode)), load512(q)));
    });
  }

  /// See Q8Group::setGroup().
  void setGroup(const RingCache &cache, int64_t at, int64_t n, int64_t next) {
    Q8Group::setGroup(cache, at, n, next);
    scoreReads = 0;
  }

  /// Plans the prefetches while this group is processed: the rows that follow
  /// it and, if it is the `first`, all but its own first tiles are still in
  /// memory. Spreads them evenly over the work with `queries`: one line per
  /// quad of rows in the sums, the rest in the scores.
  void readAhead(int64_t queries, bool first) {
    int64_t begin = first ? kTiles : groupTiles;
    begin = begin < prefetchTiles ? begin : prefetchTiles;
    ahead = prefetchFrom(begin);
    int64_t blocks = queries / kQueries + queries % kQueries;
    int64_t inSums = blocks * kvBlocks(shape.values) * tiles * kKvTile / 4;
    int64_t left = (prefetchTiles - begin) * pieceLines - inSums;
    int64_t inScores =
        blocks * shape.keyBlocks * ((tiles + kTiles - 1) / kTiles);
    scoreReads = left > 0 ? (left + inScores - 1) / inScores : 0;
  }

  /// Computes the scores of the first `queries`. Tiles stay in L1 for all of
  /// them.
  void score(int64_t queries) {
    int64_t t = 0;
    for (; t + kTiles <= tiles; t += kTiles)
      scoreTiles<kTiles>(queries, t);
    for (; t < tiles; ++t)
      scoreTiles<1>(queries, t);
  }

  /// Computes the words of query i's weights, and the list of row quads that
  /// contain a word larger than a byte. If the largest weight is below 1e-30,
  /// all words are zero: the running sum is then at least 1.
  void weigh(int64_t i, Range visible, float &runningMost, float &runningSum) {
    const BlockWeights weights = softmax(i, visible, runningMost, runningSum);
    const auto seen = float(visible.end - visible.begin);
    const float *p = scores + i * kGroup;
    const int64_t count = tiles * kKvTile;
    const __m512i byteMost = _mm512_set1_epi32(255);
    const float top = weights.most;
    bool any = top > 1e-30f;
    // The mean of all weights first, then of weights clamped to that.
    float bulk = kBulk / seen * weights.sum;
    if (bulk < top) {
      // Two sums hide the latency of the additions.
      const __m512 limit = _mm512_set1_ps(bulk);
      __m512 sum = _mm512_setzero_ps(), other = sum;
      int64_t k = 0;
      for (; k + 32 <= count; k += 32) {
        sum = _mm512_add_ps(sum, _mm512_min_ps(_mm512_load_ps(p + k), limit));
        other = _mm512_add_ps(other,
                              _mm512_min_ps(_mm512_load_ps(p + k + 16), limit));
      }
      if (k < count)
        sum = _mm512_add_ps(sum, _mm512_min_ps(_mm512_load_ps(p + k), limit));
      bulk = kBulk / seen * _mm512_reduce_add_ps(_mm512_add_ps(sum, other));
    }
    float byte = bulk < top ? bulk : top;
    if (byte < top * (255.0f / 32767))
      byte = top * (255.0f / 32767);
    unit[i] = any ? byte / 255 : 0;
    __m512 inverse = _mm512_set1_ps(any ? 255 / byte : 0);
    // Bit 4 i + j is set if quad 16 j + i has a word larger than a byte.
    uint64_t quadsAbove = 0;
    for (int64_t k = 0, shift = 0; k < count; k += 64, ++shift) {
      uint64_t above = 0;
      for (int64_t j = 0; j < 64 && k + j < count; j += 16) {
        __m512i v = _mm512_cvtps_epi32(
            _mm512_mul_ps(_mm512_load_ps(p + k + j), inverse));
        storeWords(words + i * kGroup, k + j, _mm512_cvtusepi32_epi16(v));
        above |= uint64_t(_mm512_cmpgt_epi32_mask(v, byteMost)) << j;
      }
      above |= above >> 1;
      above |= above >> 2;
      quadsAbove |= (above & 0x1111111111111111) << shift;
    }
    uint8_t *list = large + i * kQuads;
    for (; quadsAbove != 0; quadsAbove &= quadsAbove - 1) {
      int bit = __builtin_ctzll(quadsAbove);
      *list++ = uint8_t(bit % 4 * 16 + bit / 4);
    }
    largeCount[i] = int32_t(list - (large + i * kQuads));
  }

  /// Transposes the codes of block b of the values to [row / 4][column][4],
  /// signed.
  void transpose(int64_t b) {
    const __m512i bytes = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const __m512i zero = _mm512_set1_epi8(char(kKvZeroCode));
    auto *quads = reinterpret_cast<int8_t *>(place(b));
    for (int64_t i = 0; i < groupTiles; ++i) {
      const uint8_t *from = tileCodes(i, b);
      for (int64_t c = 0; c < kVecs; ++c) {
        // Lane k of line j has columns 4 j ... of rows 4 k ... Loads combine
        // the halves of two lines, so that shuffles only swap lanes 1 and 2.
        const uint8_t *line = from + c * 4 * 64;
        int8_t *to = quads + (i * 4 * kVecs + c) * 64;
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half, line += 32) {
          __m512i x01 = halves(line, line + 64);
          __m512i x23 = halves(line + 2 * 64, line + 3 * 64);
          auto put = [&](int k, __m512i v) {
            v = _mm512_shuffle_epi8(_mm512_xor_si512(v, zero), bytes);
            _mm512_store_si512(to + (2 * half + k) * kVecs * 64, v);
          };
          put(0, _mm512_shuffle_i32x4(x01, x23, 0x88));
          put(1, _mm512_shuffle_i32x4(x01, x23, 0xdd));
        }
      }
    }
  }
  /// Computes block b of the weighted sums of the first `queries`, which are
  /// rows of `out`; adds to the previous sums unless `fresh`.
  void sum(int64_t queries, int64_t b, bool fresh, float *out, int64_t stride) {
    int64_t i = 0;
    for (; i + kQueries <= queries; i += kQueries)
      sumBlock<kQueries>(i, b, fresh, out, stride);
    for (; i < queries; ++i)
      sumBlock<1>(i, b, fresh, out, stride);
  }

private:
  static constexpr int64_t kQuads = kGroup / 4;
  static constexpr int kTiles = 2;
  /// Vectors that hold the columns of a block.
  static constexpr int kVecs = kKvBlock / 16;
  static_assert(kQueries * kVecs == 16);
  static_assert(kQuads <= 64, "a bit each");
  /// Weights up to this many times the mean fit in a byte: the step is a 32nd
  /// of the mean, and at most an eighth of the words is larger.
  static constexpr float kBulk = 8;

  /// Computes sum + u * v. Opaque to GCC 12, which otherwise gives the sum of
  /// each step of a loop a register of its own and copies it back and forth: 32
  /// moves for 16 vpdpbusd.
  MOE_INLINE static void dot(__m512i &sum, __m512i u, __m512i v) {
    sum = _mm512_dpbusd_epi32(sum, u, v);
    __asm__("" : "+v"(sum));
  }
  MOE_INLINE static __m512i load512(const void *p) {
    return _mm512_loadu_si512(p);
  }
  MOE_INLINE static __m512i broadcast32(const void *p) {
    int32_t value;
    std::memcpy(&value, p, sizeof(value));
    return _mm512_set1_epi32(value);
  }

  template <int T> MOE_INLINE void scoreTiles(int64_t queries, int64_t t) {
    int64_t i = 0;
    for (; i + kQueries <= queries; i += kQueries)
      scoreBlock<kQueries, T>(i, t);
    for (; i < queries; ++i)
      scoreBlock<1, T>(i, t);
  }

  /// Computes the scores of R queries from `first` on with the rows of T tiles,
  /// from the group's t-th tile on.
  template <int R, int T> void scoreBlock(int64_t first, int64_t t) {
    const int64_t count = shape.keyBlocks, queryStride = count * kKvBlock;
    const uint8_t *codes[T], *scales[T];
    for (int i = 0; i < T; ++i) {
      codes[i] = keyCodes(t + i);
      scales[i] = keyScales(t + i);
    }
    const int64_t held = chosen + first;
    const int8_t *q = query + held * queryStride;
    const int32_t *start = queryStart + held * count;
    const float *scale = queryScale + held * count;
    const int64_t readCount = scoreReads;
    Ahead reads = ahead;
    __m512 sum[R][T];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int i = 0; i < T; ++i)
        sum[r][i] = _mm512_setzero_ps();
    for (int64_t b = 0; b < count; ++b, ++start, ++scale) {
      __m512i acc[R][T];
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int i = 0; i < T; ++i)
          acc[r][i] = _mm512_set1_epi32(start[r * count]);
      for (int64_t i = 0; i < readCount; ++i)
        reads.read(pieces);
      for (int64_t c = 0; c < kKvBlock; c += 4, q += 4) {
        __m512i k[T];
#pragma GCC unroll 4
        for (int i = 0; i < T; ++i) {
          k[i] = load512(codes[i]);
          codes[i] += 4 * kKvTile;
        }
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          __m512i qv = broadcast32(q + r * queryStride);
#pragma GCC unroll 4
          for (int i = 0; i < T; ++i)
            dot(acc[r][i], k[i], qv);
        }
      }
#pragma GCC unroll 4
      for (int i = 0; i < T; ++i) {
        __m512 d = _mm512_loadu_ps(scales[i] + b * 64);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r)
          sum[r][i] =
              _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(acc[r][i]), d),
                              _mm512_set1_ps(scale[r * count]), sum[r][i]);
      }
    }
    ahead = reads;
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int i = 0; i < T; ++i)
        _mm512_store_ps(scores + (first + r) * kGroup + (t + i) * kKvTile,
                        sum[r][i]);
  }

  /// Returns where words of 16 rows from `row` on are stored, eight at the
  /// index and eight at index + 32: packing two vectors then gives 64 bytes in
  /// row order.
  MOE_INLINE static int64_t wordIndex(int64_t row) {
    return row / 64 * 64 + row % 64 / 16 * 8;
  }
  MOE_INLINE static void storeWords(void *to, int64_t row, __m256i words) {
    auto *at = static_cast<uint16_t *>(to) + wordIndex(row);
    _mm_store_si128((__m128i *)at, _mm256_castsi256_si128(words));
    _mm_store_si128((__m128i *)(at + 32), _mm256_extracti128_si256(words, 1));
  }

  /// Encodes the scales of the group's `rows` in block b of the values as
  /// 15-bit fractions of the largest; those of other rows up to the last tile
  /// are zero.
  void encodeScales(Range rows, int64_t b) {
    int64_t count = (rows.end + kKvTile - 1) / kKvTile;
    auto load = [&](int64_t t) {
      int64_t row = t * kKvTile;
      auto mask = __mmask16(Simd::first(lanes(rows.end - row)) &
                            ~Simd::first(lanes(rows.begin - row)));
      return _mm512_maskz_loadu_ps(mask, tileScales(t, b));
    };
    __m512 most = _mm512_setzero_ps();
    for (int64_t t = 0; t < count; ++t)
      most = _mm512_max_ps(load(t), most);
    float top = _mm512_reduce_max_ps(most);
    bool any = top > 1e-36f;
    // vpmulhrsw divides by 2^15.
    rowUnit = any ? top * (32768.0f / 32767) : 0;
    __m512 inverse = _mm512_set1_ps(any ? 32767 / top : 0);
    for (int64_t t = 0; t < count; ++t)
      storeWords(rowScale, t * kKvTile,
                 _mm512_cvtsepi32_epi16(
                     _mm512_cvtps_epi32(_mm512_mul_ps(load(t), inverse))));
  }

  MOE_INLINE static __m512i halves(const uint8_t *low, const uint8_t *high) {
    return _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)low)),
        _mm256_loadu_si256((const __m256i *)high), 1);
  }

  /// Multiplies the words of query i with the rows' scales of block b and
  /// stores the bytes at place r of `low` and `high`. Returns the factor of
  /// their sums. If inlined, it would make GCC 12 keep the sums of sumBlock in
  /// memory.
  [[gnu::noinline]] float scaleWords(int64_t r, int64_t i, int64_t b) {
    if (rescale(i, b))
      encodeScales(scaledRows, b);
    const __m512i byte = _mm512_set1_epi16(255);
    // Local copies, because stored bytes might alias the members.
    const int16_t *from = words + i * kGroup, *scale = rowScale;
    uint8_t *lower = low + r * kGroup, *upper = high + r * kGroup;
    const int64_t count = tiles * kKvTile;
    for (int64_t k = 0; k < count; k += 64) {
      __m512i x = _mm512_mulhrs_epi16(load512(from + k), load512(scale + k));
      __m512i y =
          _mm512_mulhrs_epi16(load512(from + k + 32), load512(scale + k + 32));
      _mm512_store_si512(lower + k,
                         _mm512_packus_epi16(_mm512_and_si512(x, byte),
                                             _mm512_and_si512(y, byte)));
      _mm512_store_si512(upper + k,
                         _mm512_packus_epi16(_mm512_srli_epi16(x, 8),
                                             _mm512_srli_epi16(y, 8)));
    }
    return unit[i] * rowUnit;
  }

  /// Adds the terms of the upper bytes of query i, at place r, to the sums.
  MOE_INLINE void sumLarge(int64_t r, int64_t i, const int8_t *quads,
                           __m512i start[kVecs]) {
    const uint8_t *upper = high + r * kGroup;
#pragma GCC unroll 4
    for (int c = 0; c < kVecs; ++c)
      start[c] = _mm512_setzero_si512();
    const uint8_t *list = large + i * kQuads, *end = list + largeCount[i];
    for (; list != end; ++list) {
      __m512i p = broadcast32(upper + *list * 4);
      const int8_t *v = quads + *list * kVecs * 64;
#pragma GCC unroll 4
      for (int c = 0; c < kVecs; ++c)
        dot(start[c], p, load512(v + c * 64));
    }
#pragma GCC unroll 4
    for (int c = 0; c < kVecs; ++c)
      start[c] = _mm512_slli_epi32(start[c], 8);
  }

  template <int R>
  void sumBlock(int64_t first, int64_t b, bool fresh, float *out,
                int64_t stride) {
    float factor[R];
    for (int r = 0; r < R; ++r)
      factor[r] = scaleWords(r, first + r, b);
    const auto *v = reinterpret_cast<const int8_t *>(place(b));
    __m512i acc[R][kVecs];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      sumLarge(r, first + r, v, acc[r]);
    const uint8_t *weights = low;
    const int8_t *end = v + tiles * 4 * kVecs * 64;
    Ahead reads = ahead;
    for (; v != end; v += kVecs * 64, weights += 4) {
      reads.read(pieces);
      __m512i codes[kVecs];
#pragma GCC unroll 4
      for (int c = 0; c < kVecs; ++c)
        codes[c] = load512(v + c * 64);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        __m512i p = broadcast32(weights + r * kGroup);
#pragma GCC unroll 4
        for (int c = 0; c < kVecs; ++c)
          dot(acc[r][c], p, codes[c]);
      }
    }
    ahead = reads;
    float *to = out + first * stride + b * kKvBlock;
    if (shape.values - b * kKvBlock >= kKvBlock)
      addSums<R, true>(acc, factor, first, b, fresh, to, stride);
    else
      addSums<R, false>(acc, factor, first, b, fresh, to, stride);
  }
  template <int R, bool Whole>
  MOE_INLINE void addSums(const __m512i (&acc)[R][kVecs], const float *factor,
                          int64_t first, int64_t b, bool fresh, float *to,
                          int64_t stride) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r, to += stride) {
      __m512 before = _mm512_set1_ps(alpha[first + r]);
#pragma GCC unroll 4
      for (int c = 0; c < kVecs; ++c) {
        int width = Whole ? 16 : lanes(shape.values - b * kKvBlock - c * 16);
        __mmask16 mask = Simd::first(width);
        __m512 x = _mm512_mul_ps(_mm512_cvtepi32_ps(acc[r][c]),
                                 _mm512_set1_ps(factor[r]));
        if (!fresh)
          x = _mm512_fmadd_ps(before, _mm512_maskz_loadu_ps(mask, to + c * 16),
                              x);
        _mm512_mask_storeu_ps(to + c * 16, mask, x);
      }
    }
  }

  /// Returns the number of lanes that `rest` elements fill.
  MOE_INLINE static int lanes(int64_t rest) {
    return rest < 0 ? 0 : rest < 16 ? int(rest) : 16;
  }

  // `words` and `rowScale` are in the order of wordIndex.
  uint8_t *large;      ///< [queries][kQuads]: quads that have a word above 255.
  int32_t *largeCount; ///< [queries]: number of such quads.
  uint8_t *low;        ///< [kQueries][kGroup]: lower bytes of words * rowScale.
  uint8_t *high;       ///< [kQueries][kGroup]: upper bytes of words * rowScale.

  int64_t scoreReads = 0;
};

} // namespace moek::avx512

#endif // MOE_KERNELS_CPU_AVX512_Q8PRODUCTS_H
