//===- Q8Latent.h - Latent attention on a Q8_0 cache ------------*- C++ -*-===//
//
// Scores and weighted sums as 8-bit products. Rows go by in groups of kGroup:
//
// 1. Scores: q, quantised per block of kKvBlock, times codes of 4 tiles x 4
//    heads: 16 accumulators, 8 loads for 16 vpdpbusd.
// 2. Weights p = exp(score - maximum) become 15-bit words in units of the
//    group. A byte is kBulk times the mean of all but the largest: a few rows,
//    as often the first, may have most of the weight, and the others must not
//    round to nothing beside them. The few words above a byte go into a second,
//    sparse product of their upper bytes.
// 3. Sums: per block of columns the group's codes are transposed into quads of
//    rows, and a row's scale is multiplied into its words. So a sum over rows
//    is a sum of integers: 16 accumulators again.
//
// V2-Lite: 576 + 512 columns of a row are 17 vpdpbusd per head, a group is
// 153 KiB of L2, a transposed block 16 KiB of L1. The next group comes from
// memory meanwhile: 2448 lines asked for one by one, one to some 30 vpdpbusd.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX512_Q8LATENT_H
#define MOE_KERNELS_CPU_AVX512_Q8LATENT_H

#include "kernels/cpu/Elementwise.h"
#include "kernels/cpu/KvRows.h"
#include "kernels/cpu/Softmax.h"
#include "kernels/cpu/avx512/Simd.h"

namespace moek::avx512 {

class Q8Latent {
public:
  Q8Latent(const LatentAttentionArgs &args, std::byte *scratch)
      : a(args), blocks(kvBlocks(a.latent + a.rope)),
        latentBlocks(kvBlocks(a.latent)) {
    auto take = [&](auto *&part, int64_t count) {
      part = reinterpret_cast<std::remove_reference_t<decltype(part)>>(scratch);
      scratch += (count * int64_t(sizeof(*part)) + 63) / 64 * 64;
    };
    take(query, a.heads * blocks * kKvBlock);
    take(queryScale, a.heads * blocks);
    take(queryStart, a.heads * blocks);
    take(scores, a.heads * kGroup);
    take(words, a.heads * kGroup);
    take(large, a.heads * kQuads);
    take(largeCount, a.heads);
    take(unit, a.heads);
    take(alpha, a.heads);
    take(rowScale, latentBlocks * kGroup);
    take(rowUnit, latentBlocks);
    take(quads, kGroup * kKvBlock);
    take(low, kHeads * kGroup);
    take(high, kGroup);
  }

  /// See FloatLatent::attend. `first` is a multiple of kKvTile.
  void attend(const float *q, int64_t heads, int64_t first, int64_t end,
              float *out, float *most, float *sum) {
    if (q != encoded || heads > encodedHeads) // A token has several spans.
      encodeQueries(q, heads);
    next.at = kvTile(a.kv, first) + kTiles * kKvTile * a.kv.rowStride;
    for (int64_t at = first; at < end; at += kGroup) {
      rows = end - at < kGroup ? end - at : kGroup;
      tiles = (rows + kKvTile - 1) / kKvTile;
      tile = kvTile(a.kv, at);
      planReads(heads, end - at < 2 * kGroup ? end - at : 2 * kGroup);
      scoreHeads(heads);
      for (int64_t h = 0; h < heads; ++h)
        alpha[h] =
            softmaxBlock<Simd>(scores + h * kGroup, rows, most[h], sum[h]);
      for (int64_t h = 0; h < heads; ++h)
        encodeWeights(h);
      encodeScales();
      for (int64_t b = 0; b < latentBlocks; ++b) {
        transpose(b);
        int64_t h = 0;
        for (; h + kHeads <= heads; h += kHeads)
          sumBlock<kHeads>(h, b, at == first, out);
        for (; h < heads; ++h)
          sumBlock<1>(h, b, at == first, out);
      }
    }
  }

private:
  static constexpr int64_t kGroup = kLatentGroup, kQuads = kGroup / 4;
  static constexpr int kTiles = 2, kHeads = 4;
  static constexpr int kVecs = kKvBlock / 16; ///< Of columns of a block.
  static_assert(kHeads * kVecs == 16 && kHeads == kLatentHeadTile);
  static_assert(kQuads <= 64, "a bit each");
  /// Weights up to this many times the mean are bytes: steps are a 32nd of it,
  /// and at most an eighth of the words is larger.
  static constexpr float kBulk = 8;

  /// Lines of the cache on their way to L2 while others are computed with.
  struct Ahead {
    const uint8_t *at, *end;
    MOE_INLINE void read() {
      _mm_prefetch(reinterpret_cast<const char *>(at), _MM_HINT_T1);
      at += at < end ? 64 : 0;
    }
  };

  /// sum + u * v. Opaque to GCC 12, which otherwise gives the sum of each step
  /// of a loop a register of its own and copies it back and forth: 32 moves to
  /// 16 vpdpbusd.
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

  void encodeQueries(const float *q, int64_t heads) {
    encoded = q;
    encodedHeads = heads;
    int64_t width = a.latent + a.rope;
    alignas(64) float tail[kKvBlock];
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t b = 0; b < blocks; ++b) {
        int64_t begin = b * kKvBlock, i = h * blocks + b;
        const float *x = q + h * width + begin;
        if (width - begin < kKvBlock) {
          std::memset(tail, 0, sizeof(tail));
          std::memcpy(tail, x, size_t(width - begin) * sizeof(float));
          x = tail;
        }
        queryScale[i] =
            a.scale * quantizeKvBlock<Simd>(x, query + i * kKvBlock);
        __m512i sum = _mm512_setzero_si512();
        const __m512i zero = _mm512_set1_epi8(char(kKvZeroCode));
        for (int64_t c = 0; c < kKvBlock; c += 64)
          sum =
              _mm512_dpbusd_epi32(sum, zero, load512(query + i * kKvBlock + c));
        queryStart[i] = -_mm512_reduce_add_epi32(sum);
      }
  }

  /// Spreads reading the `ahead` rows from the group's first one evenly over
  /// the group's work: a line for each quad of rows in the sums, the rest in
  /// the scores.
  void planReads(int64_t heads, int64_t ahead) {
    int64_t headTiles = heads / kHeads + heads % kHeads;
    int64_t aheadTiles = (ahead + kKvTile - 1) / kKvTile;
    next.end = tile + aheadTiles * kKvTile * a.kv.rowStride;
    int64_t inSums = headTiles * latentBlocks * tiles * kKvTile / 4;
    int64_t left = (next.end - next.at) / 64 - inSums;
    int64_t inScores = headTiles * blocks * ((tiles + kTiles - 1) / kTiles);
    scoreReads = left > 0 ? (left + inScores - 1) / inScores : 0;
  }

  /// Tiles stay in L1 for all heads.
  void scoreHeads(int64_t heads) {
    int64_t t = 0;
    for (; t + kTiles <= tiles; t += kTiles)
      scoreTiles<kTiles>(heads, t);
    for (; t < tiles; ++t)
      scoreTiles<1>(heads, t);
  }
  template <int T> MOE_INLINE void scoreTiles(int64_t heads, int64_t t) {
    int64_t h = 0;
    for (; h + kHeads <= heads; h += kHeads)
      scoreBlock<kHeads, T>(h, t);
    for (; h < heads; ++h)
      scoreBlock<1, T>(h, t);
  }

  /// Scores of R heads with the rows of T tiles from the group's t-th.
  template <int R, int T> void scoreBlock(int64_t head, int64_t t) {
    const int64_t tileStride = kKvTile * a.kv.rowStride, count = blocks;
    const int64_t queryStride = count * kKvBlock;
    const uint8_t *codes = tile + t * tileStride;
    const uint8_t *scales = codes + kvScaleOffset(a.kv.width);
    const int8_t *q = query + head * queryStride;
    const int32_t *start = queryStart + head * count;
    const float *scale = queryScale + head * count;
    const int64_t readCount = scoreReads;
    Ahead reads = next;
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
        reads.read();
      for (int64_t c = 0; c < kKvBlock; c += 4, q += 4, codes += 4 * kKvTile) {
        __m512i k[T];
#pragma GCC unroll 4
        for (int i = 0; i < T; ++i)
          k[i] = load512(codes + i * tileStride);
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
        __m512 d = _mm512_loadu_ps(scales + i * tileStride + b * 64);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r)
          sum[r][i] =
              _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(acc[r][i]), d),
                              _mm512_set1_ps(scale[r * count]), sum[r][i]);
      }
    }
    next = reads;
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int i = 0; i < T; ++i)
        _mm512_store_ps(scores + (head + r) * kGroup + (t + i) * kKvTile,
                        sum[r][i]);
  }

  /// Where words of 16 rows from `row` on go, eight to `at` and eight to
  /// at + 32: so that packing two vectors leaves 64 bytes in the rows' order.
  MOE_INLINE static int64_t wordIndex(int64_t row) {
    return row / 64 * 64 + row % 64 / 16 * 8 + row % 16 / 8 * 32 + row % 8;
  }
  MOE_INLINE static void storeWords(void *to, int64_t row, __m256i words) {
    auto *at = static_cast<uint16_t *>(to) + wordIndex(row);
    _mm_store_si128((__m128i *)at, _mm256_castsi256_si128(words));
    _mm_store_si128((__m128i *)(at + 32), _mm256_extracti128_si256(words, 1));
  }

  /// Words of a head's weights; the quads of rows with one above a byte. Below
  /// 1e-30, where the running sum is at least 1, they are zero.
  void encodeWeights(int64_t h) {
    const float *p = scores + h * kGroup;
    const int64_t count = tiles * kKvTile;
    const __m512i byteMost = _mm512_set1_epi32(255);
    __m512 most = _mm512_setzero_ps(), sum = _mm512_setzero_ps();
    for (int64_t k = 0; k < count; k += 16) {
      most = _mm512_max_ps(most, _mm512_load_ps(p + k));
      sum = _mm512_add_ps(sum, _mm512_load_ps(p + k));
    }
    float top = _mm512_reduce_max_ps(most);
    bool any = top > 1e-30f;
    // Of all, then without what exceeds that.
    float bulk = kBulk / float(rows) * _mm512_reduce_add_ps(sum);
    if (bulk < top) {
      sum = _mm512_setzero_ps();
      for (int64_t k = 0; k < count; k += 16)
        sum = _mm512_add_ps(
            sum, _mm512_min_ps(_mm512_load_ps(p + k), _mm512_set1_ps(bulk)));
      bulk = kBulk / float(rows) * _mm512_reduce_add_ps(sum);
    }
    float byte = bulk < top ? bulk : top;
    if (byte < top * (255.0f / 32767))
      byte = top * (255.0f / 32767);
    unit[h] = any ? byte / 255 : 0;
    __m512 inverse = _mm512_set1_ps(any ? 255 / byte : 0);
    // Bit 4 i + j of the result: quad 16 j + i has a word above a byte.
    uint64_t quadsAbove = 0;
    for (int64_t k = 0, shift = 0; k < count; k += 64, ++shift) {
      uint64_t above = 0;
      for (int64_t i = 0; i < 64 && k + i < count; i += 16) {
        __m512i v = _mm512_cvtps_epi32(
            _mm512_mul_ps(_mm512_load_ps(p + k + i), inverse));
        storeWords(words + h * kGroup, k + i, _mm512_cvtusepi32_epi16(v));
        above |= uint64_t(_mm512_cmpgt_epi32_mask(v, byteMost)) << i;
      }
      above |= above >> 1;
      above |= above >> 2;
      quadsAbove |= (above & 0x1111111111111111) << shift;
    }
    uint8_t *list = large + h * kQuads;
    for (; quadsAbove != 0; quadsAbove &= quadsAbove - 1) {
      int bit = __builtin_ctzll(quadsAbove);
      *list++ = uint8_t(bit % 4 * 16 + bit / 4);
    }
    largeCount[h] = int32_t(list - (large + h * kQuads));
  }

  /// Scales of the group's rows as 15-bit fractions of each block's largest,
  /// zero for rows past the last.
  void encodeScales() {
    int64_t tileStride = kKvTile * a.kv.rowStride;
    for (int64_t b = 0; b < latentBlocks; ++b) {
      const uint8_t *scales = tile + kvScaleOffset(a.kv.width) + b * 64;
      auto load = [&](int64_t i) {
        return _mm512_maskz_loadu_ps(Simd::first(lanes(rows - i * kKvTile)),
                                     scales + i * tileStride);
      };
      __m512 most = _mm512_setzero_ps();
      for (int64_t i = 0; i < tiles; ++i)
        most = _mm512_max_ps(load(i), most);
      float top = _mm512_reduce_max_ps(most);
      bool any = top > 1e-36f;
      // vpmulhrsw divides by 2^15.
      rowUnit[b] = any ? top * (32768.0f / 32767) : 0;
      __m512 inverse = _mm512_set1_ps(any ? 32767 / top : 0);
      for (int64_t i = 0; i < tiles; ++i)
        storeWords(rowScale + b * kGroup, i * kKvTile,
                   _mm512_cvtsepi32_epi16(
                       _mm512_cvtps_epi32(_mm512_mul_ps(load(i), inverse))));
    }
  }

  /// Block b of the group's codes: `quads` is [row / 4][column][4], signed.
  void transpose(int64_t b) {
    const __m512i bytes = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const __m512i zero = _mm512_set1_epi8(char(kKvZeroCode));
    for (int64_t i = 0; i < tiles; ++i) {
      const uint8_t *from =
          tile + (i * a.kv.rowStride + b * kKvBlock) * kKvTile;
      for (int64_t c = 0; c < kVecs; ++c) {
        // Lane k of line j: columns 4 j ... of rows 4 k ... Loads bring two
        // lines' halves together, so that shuffles only swap lanes 1 and 2.
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
  MOE_INLINE static __m512i halves(const uint8_t *low, const uint8_t *high) {
    return _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)low)),
        _mm256_loadu_si256((const __m256i *)high), 1);
  }

  /// The words of one of the tile's heads for block b, times the rows' scales:
  /// lower bytes go to `low`, what upper ones add to the sums to `start`.
  MOE_INLINE void scaleWords(int64_t r, int64_t h, int64_t b,
                             __m512i start[kVecs]) {
    const uint16_t *from = words + h * kGroup;
    const int16_t *scale = rowScale + b * kGroup;
    const __m512i byte = _mm512_set1_epi16(255);
    // Not members: stored bytes might alias those.
    uint8_t *lower = low + r * kGroup, *upper = high;
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
#pragma GCC unroll 4
    for (int c = 0; c < kVecs; ++c)
      start[c] = _mm512_setzero_si512();
    const uint8_t *list = large + h * kQuads, *end = list + largeCount[h];
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

  /// Columns of block b of R heads from `head` on.
  template <int R>
  void sumBlock(int64_t head, int64_t b, bool fresh, float *out) {
    __m512i acc[R][kVecs];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      scaleWords(r, head + r, b, acc[r]);
    const uint8_t *weights = low;
    const int8_t *v = quads, *end = quads + tiles * 4 * kVecs * 64;
    Ahead reads = next;
    for (; v != end; v += kVecs * 64, weights += 4) {
      reads.read();
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
    next = reads;
    if (a.latent - b * kKvBlock >= kKvBlock)
      addSums<R, true>(acc, head, b, fresh, out);
    else
      addSums<R, false>(acc, head, b, fresh, out);
  }
  template <int R, bool Whole>
  MOE_INLINE void addSums(const __m512i (&acc)[R][kVecs], int64_t head,
                          int64_t b, bool fresh, float *out) {
    const int64_t stride = a.latent;
    float *to = out + head * stride + b * kKvBlock;
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r, to += stride) {
      __m512 factor = _mm512_set1_ps(unit[head + r] * rowUnit[b]);
      __m512 before = _mm512_set1_ps(alpha[head + r]);
#pragma GCC unroll 4
      for (int c = 0; c < kVecs; ++c) {
        int width = Whole ? 16 : lanes(stride - b * kKvBlock - c * 16);
        __mmask16 mask = Simd::first(width);
        __m512 x = _mm512_mul_ps(_mm512_cvtepi32_ps(acc[r][c]), factor);
        if (!fresh)
          x = _mm512_fmadd_ps(before, _mm512_maskz_loadu_ps(mask, to + c * 16),
                              x);
        _mm512_mask_storeu_ps(to + c * 16, mask, x);
      }
    }
  }

  /// Lanes of a vector that `rest` elements fill.
  MOE_INLINE static int lanes(int64_t rest) {
    return rest < 0 ? 0 : rest < 16 ? int(rest) : 16;
  }

  const LatentAttentionArgs &a;
  int64_t blocks, latentBlocks; ///< Of a row; of its latent, maybe one shared.
  const float *encoded = nullptr;
  int64_t encodedHeads = 0;

  int8_t *query;       ///< [heads][blocks][kKvBlock]
  float *queryScale;   ///< [heads][blocks], times the scale of scores.
  int32_t *queryStart; ///< [heads][blocks]: minus zero code times sum of q.
  float *scores;       ///< [heads][kGroup], then weights.
  uint16_t *words;     ///< [heads][kGroup]: weights in units, by wordIndex.
  uint8_t *large;      ///< [heads][kQuads]: quads with words above a byte,
  int32_t *largeCount; ///< [heads]: so many.
  float *unit;         ///< [heads]
  float *alpha;        ///< [heads]: what earlier sums are multiplied by.
  int16_t *rowScale;   ///< [latentBlocks][kGroup], by wordIndex.
  float *rowUnit;      ///< [latentBlocks]
  int8_t *quads;       ///< [kQuads][kKvBlock][4]
  uint8_t *low;        ///< [kHeads][kGroup]: lower bytes of words * rowScale.
  uint8_t *high;       ///< [kGroup]: upper bytes, of one head.

  // The group at work.
  int64_t rows = 0, tiles = 0, scoreReads = 0;
  const uint8_t *tile = nullptr;
  Ahead next = {};
};

} // namespace moek::avx512

#endif // MOE_KERNELS_CPU_AVX512_Q8LATENT_H
