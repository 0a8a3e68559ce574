//===- Q8Products.h - Integer products of attention, AVX2 -------*- C++ -*-===//
//
// Computes scores and weighted sums as products of codes with 16-bit numbers.
// vpmaddwd multiplies 16 columns where vpmaddubsw multiplies 32, but the 16-bit
// sums of vpmaddubsw need a second multiplication to be widened: either way two
// multiplications per 32 columns, and vpmaddubsw would need an 8-bit factor
// besides. Codes stay bytes in memory; a mask and a shift make two vectors of
// words from them, of the even and of the odd bytes.
//
// 1. Scores: queries, quantised to words per block of kKvBlock, times the codes
//    of a tile, for 4 queries x 2 vectors of 8 rows.
// 2. Weights p = exp(score - maximum) become 15-bit words in units of the
//    group's largest weight.
// 3. Sums: per block of columns the group's codes are transposed into pairs of
//    rows, and each row's scale is multiplied into a query's words. So a sum
//    over rows is a sum of integers, for 4 queries x 16 columns.
//
// In total 8 x 16 products of a score or a sum take 18 instructions on the
// vector ports, 8 of them multiplications. In floats they would take 16, all on
// the two ports that multiply.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX2_Q8PRODUCTS_H
#define MOE_KERNELS_CPU_AVX2_Q8PRODUCTS_H

#include "kernels/cpu/Q8Group.h"
#include "kernels/cpu/avx2/Simd.h"

namespace moek::MOE_ISA {

class Q8Products : public Q8Group<Simd, int16_t> {
public:
  Q8Products(const Q8Shape &shape, std::byte *scratch)
      : Q8Group(shape, scratch) {
    take(scaled, kQueries * kGroup);
  }

  /// Quantises `count` columns of query i to words, from its block `first` on,
  /// like quantizeKvBlock.
  void encode(int64_t i, int64_t first, const float *x, int64_t count) {
    forKvBlocks(x, count, [&](int64_t b, const float *from) {
      encodeBlock(from, i * shape.keyBlocks + first + b);
    });
  }

  /// Computes the scores of the first `queries`. A tile stays in L1 for all of
  /// them; meanwhile the next one, if there is one, is prefetched, some lines
  /// with every block of a few queries.
  void score(int64_t queries) {
    int64_t steps = (queries / kQueries + queries % kQueries) * shape.keyBlocks;
    reads = (pieceLines + steps - 1) / steps;
    ahead = prefetchFrom(prefetchTiles > 1 ? 1 : prefetchTiles);
    for (int64_t t = 0; t < tiles; ++t) {
      int64_t i = 0;
      for (; i + kQueries <= queries; i += kQueries)
        scoreBlock<kQueries>(i, t);
      for (; i < queries; ++i)
        scoreBlock<1>(i, t);
    }
  }

  /// Computes the words of query i's weights. If the largest weight is below
  /// 1e-30, all are zero: the running sum is then at least 1.
  void weigh(int64_t i, Range visible, float &most, float &sum) {
    const float top = softmax(i, visible, most, sum).most;
    const float *p = scores + i * kGroup;
    int64_t end = tiles * kKvTile;
    bool any = top > 1e-30f;
    unit[i] = any ? top / kMostWord : 0;
    __m256 inverse = _mm256_set1_ps(any ? kMostWord / top : 0);
    for (int64_t k = 0; k < end; k += kKvTile)
      _mm256_store_si256(
          (__m256i *)(words + i * kGroup + k),
          toWords(_mm256_mul_ps(_mm256_load_ps(p + k), inverse),
                  _mm256_mul_ps(_mm256_load_ps(p + k + 8), inverse)));
  }

  /// Transposes the codes of block b of the values: each strip has [row / 2]
  /// vectors of [column / 2][2 rows][2 columns], so that even bytes are even
  /// columns.
  void transpose(int64_t b) {
    uint8_t *strips = place(b);
    for (int64_t t = 0; t < groupTiles; ++t) {
      const uint8_t *from = tileCodes(t, b);
      for (int64_t s = 0; s < kStrips; ++s, from += kStrip * kKvTile)
        for (int64_t half = 0; half < kHalves; ++half) {
          __m256i x[4]; // x[j] has columns 4 j ... of row pairs 0 1 | 2 3.
#pragma GCC unroll 4
          for (int j = 0; j < 4; ++j)
            x[j] = swapMiddleWords(load256(from + j * 64 + half * 32));
          // Row 0, then row 2.
          __m256i low01 = _mm256_unpacklo_epi64(x[0], x[1]);
          __m256i low23 = _mm256_unpacklo_epi64(x[2], x[3]);
          // Row 1, then row 3.
          __m256i high01 = _mm256_unpackhi_epi64(x[0], x[1]);
          __m256i high23 = _mm256_unpackhi_epi64(x[2], x[3]);
          auto *to = (__m256i *)(strips + (s * kGroup + t * kKvTile) * kStrip) +
                     half * 4;
          _mm256_store_si256(to, _mm256_permute2x128_si256(low01, low23, 0x20));
          _mm256_store_si256(to + 1,
                             _mm256_permute2x128_si256(high01, high23, 0x20));
          _mm256_store_si256(to + 2,
                             _mm256_permute2x128_si256(low01, low23, 0x31));
          _mm256_store_si256(to + 3,
                             _mm256_permute2x128_si256(high01, high23, 0x31));
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
  static constexpr int kHalves = 2; ///< Vectors that hold the rows of a tile.
  static constexpr int kStrip = 16; ///< Columns that are summed at a time.
  static constexpr int kStrips = kKvBlock / kStrip;
  /// Largest word of a query, a weight or a scale.
  static constexpr float kMostWord = 32767;
  static_assert(kHalves * Simd::kWidth == kKvTile);
  static_assert(kGroup * 255 * 32768 < int64_t(1) << 31, "sums of sumStrip");

  MOE_INLINE static __m256i load256(const void *p) {
    return _mm256_loadu_si256((const __m256i *)p);
  }
  MOE_INLINE static __m256i broadcast32(const void *p) {
    int32_t value;
    std::memcpy(&value, p, sizeof(value));
    return _mm256_set1_epi32(value);
  }
  MOE_INLINE static __m256i evenBytes(__m256i v) {
    return _mm256_and_si256(v, _mm256_set1_epi16(0xff));
  }
  MOE_INLINE static __m256i oddBytes(__m256i v) {
    return _mm256_srli_epi16(v, 8);
  }
  /// Reorders every four words to 0 2 1 3.
  MOE_INLINE static __m256i swapMiddleWords(__m256i v) {
    const __m128i order =
        _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
    return _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(order));
  }
  /// Keeps this order: GCC would compute all products of a block first and
  /// spill them.
  MOE_INLINE static __m256i addProducts(__m256i sum, __m256i x, __m256i y) {
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(x, y));
    __asm__("" : "+x"(sum));
    return sum;
  }
  /// Converts 16 floats, at most kMostWord, to words in the same order.
  MOE_INLINE static __m256i toWords(__m256 low, __m256 high) {
    __m256i packed =
        _mm256_packs_epi32(_mm256_cvtps_epi32(low), _mm256_cvtps_epi32(high));
    return _mm256_permute4x64_epi64(packed, 0xd8);
  }
  MOE_INLINE static int32_t sumOfWords(__m256i pairSums) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(pairSums),
                              _mm256_extracti128_si256(pairSums, 1));
    s = _mm_hadd_epi32(s, s);
    return _mm_cvtsi128_si32(_mm_hadd_epi32(s, s));
  }

  /// Encodes a block: the even ones of each four columns come first, in the
  /// order of evenBytes and oddBytes of a row's codes.
  void encodeBlock(const float *x, int64_t i) {
    bool finite, alsoFinite;
    float biggest = Simd::maxAbs32(x, finite);
    float other = Simd::maxAbs32(x + 32, alsoFinite);
    biggest = other > biggest ? other : biggest;
    finite &= alsoFinite;
    bool any = biggest >= 1e-36f;
    __m256 inverse = _mm256_set1_ps(any ? kMostWord / biggest : 0);
    queryScale[i] = !finite ? std::numeric_limits<float>::quiet_NaN()
                    : any   ? shape.scale * (biggest / kMostWord)
                            : 0;
    __m256i sum = _mm256_setzero_si256();
    for (int64_t c = 0; c < kKvBlock; c += 16) {
      auto load = [&](int64_t at) {
        return _mm256_mul_ps(_mm256_loadu_ps(x + at), inverse);
      };
      __m256i v = any ? toWords(load(c), load(c + 8)) : _mm256_setzero_si256();
      sum = addProducts(sum, v, _mm256_set1_epi16(kKvZeroCode));
      _mm256_store_si256((__m256i *)(query + i * kKvBlock + c),
                         swapMiddleWords(v));
    }
    queryStart[i] = -sumOfWords(sum);
  }

  /// Computes the scores of R queries from `first` on with the rows of the
  /// group's t-th tile, and prefetches `reads` lines of later tiles with each
  /// block.
  template <int R> void scoreBlock(int64_t first, int64_t t) {
    const int64_t count = shape.keyBlocks, queryStride = count * kKvBlock;
    const uint8_t *codes = keyCodes(t), *scales = keyScales(t);
    const int64_t held = chosen + first, readCount = reads;
    const int16_t *q = query + held * queryStride;
    const int32_t *start = queryStart + held * count;
    const float *scale = queryScale + held * count;
    Ahead lines = ahead;
    __m256 sum[R][kHalves];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int i = 0; i < kHalves; ++i)
        sum[r][i] = _mm256_setzero_ps();
    for (int64_t b = 0; b < count; ++b, ++start, ++scale) {
      for (int64_t i = 0; i < readCount; ++i)
        lines.read(pieces);
      __m256i acc[R][kHalves];
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
        for (int i = 0; i < kHalves; ++i)
          acc[r][i] = _mm256_set1_epi32(start[r * count]);
      for (int64_t c = 0; c < kKvBlock; c += 4, q += 4, codes += 4 * kKvTile) {
        __m256i even[kHalves], odd[kHalves];
#pragma GCC unroll 2
        for (int i = 0; i < kHalves; ++i) {
          __m256i k = load256(codes + i * 32);
          even[i] = evenBytes(k);
          odd[i] = oddBytes(k);
        }
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          __m256i q0 = broadcast32(q + r * queryStride);
#pragma GCC unroll 2
          for (int i = 0; i < kHalves; ++i)
            acc[r][i] = addProducts(acc[r][i], even[i], q0);
          __m256i q1 = broadcast32(q + r * queryStride + 2);
#pragma GCC unroll 2
          for (int i = 0; i < kHalves; ++i)
            acc[r][i] = addProducts(acc[r][i], odd[i], q1);
        }
      }
#pragma GCC unroll 2
      for (int i = 0; i < kHalves; ++i) {
        __m256 d = _mm256_loadu_ps((const float *)(scales + b * 64) +
                                   i * Simd::kWidth);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r)
          sum[r][i] =
              _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(acc[r][i]), d),
                              _mm256_set1_ps(scale[r * count]), sum[r][i]);
      }
    }
    ahead = lines;
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int i = 0; i < kHalves; ++i)
        _mm256_store_ps(scores + (first + r) * kGroup + t * kKvTile +
                            i * Simd::kWidth,
                        sum[r][i]);
  }

  /// Encodes the scales of the group's `rows` in block b of the values as
  /// words, fractions of the largest; those of other rows up to the last tile
  /// are zero.
  void encodeScales(Range rows, int64_t b) {
    auto load = [&](int64_t row) {
      __m256i mask = _mm256_andnot_si256(Simd::first(int(rows.begin - row)),
                                         Simd::first(int(rows.end - row)));
      return _mm256_maskload_ps(tileScales(row / kKvTile, b) + row % kKvTile,
                                mask);
    };
    __m256 most = _mm256_setzero_ps();
    for (int64_t k = 0; k < rows.end; k += Simd::kWidth)
      most = _mm256_max_ps(load(k), most);
    float top = Simd::reduceMax(most);
    bool any = top > 1e-36f;
    // vpmulhrsw divides by 2^15.
    rowUnit = any ? top * (32768 / kMostWord) : 0;
    __m256 inverse = _mm256_set1_ps(any ? kMostWord / top : 0);
    for (int64_t k = 0; k < rows.end; k += kKvTile)
      _mm256_store_si256((__m256i *)(rowScale + k),
                         toWords(_mm256_mul_ps(load(k), inverse),
                                 _mm256_mul_ps(load(k + 8), inverse)));
  }

  /// Multiplies the words of query i with the rows' scales of block b and
  /// stores them at place r of `scaled`. Returns the negated term of the zero
  /// code.
  int32_t scaleWords(int64_t r, int64_t i, int64_t b) {
    if (rescale(i, b))
      encodeScales(scaledRows, b);
    const int16_t *from = words + i * kGroup;
    __m256i sum = _mm256_setzero_si256();
    for (int64_t k = 0; k < tiles * kKvTile; k += 16) {
      __m256i v = _mm256_mulhrs_epi16(load256(from + k), load256(rowScale + k));
      sum = addProducts(sum, v, _mm256_set1_epi16(kKvZeroCode));
      _mm256_store_si256((__m256i *)(scaled + r * kGroup + k), v);
    }
    return -sumOfWords(sum);
  }

  /// Initial values of a register block's sums, and the factors of the sums.
  template <int R> struct Begin {
    int32_t start[R];
    float factor[R];
  };

  template <int R>
  [[gnu::noinline]] void sumBlock(int64_t first, int64_t b, bool fresh,
                                  float *out, int64_t stride) {
    Begin<R> begin;
    for (int r = 0; r < R; ++r) {
      begin.start[r] = scaleWords(r, first + r, b);
      begin.factor[r] = unit[first + r] * rowUnit;
    }
    for (int64_t s = 0; s < kStrips; ++s)
      sumStrip<R>(first, b, s, begin, fresh, out, stride);
  }

  template <int R>
  MOE_INLINE void sumStrip(int64_t first, int64_t b, int64_t s,
                           const Begin<R> &begin, bool fresh, float *out,
                           int64_t stride) {
    __m256i even[R], odd[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      even[r] = odd[r] = _mm256_set1_epi32(begin.start[r]);
    const int16_t *weights = scaled;
    const uint8_t *v = place(b) + s * kGroup * kStrip,
                  *end = v + tiles * kKvTile * kStrip;
    // Two pairs of rows per iteration, because GCC copies the sums once per
    // iteration.
    for (; v != end; v += 4 * kStrip, weights += 4)
#pragma GCC unroll 2
      for (int pair = 0; pair < 2; ++pair) {
        __m256i codes = load256(v + pair * 2 * kStrip);
        __m256i evenCodes = evenBytes(codes), oddCodes = oddBytes(codes);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          __m256i p = broadcast32(weights + r * kGroup + pair * 2);
          even[r] = addProducts(even[r], evenCodes, p);
          odd[r] = addProducts(odd[r], oddCodes, p);
        }
      }
    int64_t column = b * kKvBlock + s * kStrip;
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      float *row = out + (first + r) * stride;
      __m256 factor = _mm256_set1_ps(begin.factor[r]);
      __m256 x = _mm256_mul_ps(_mm256_cvtepi32_ps(even[r]), factor);
      __m256 y = _mm256_mul_ps(_mm256_cvtepi32_ps(odd[r]), factor);
      __m256 low = _mm256_unpacklo_ps(x, y), high = _mm256_unpackhi_ps(x, y);
      addTo(row, column, first + r, fresh,
            _mm256_permute2f128_ps(low, high, 0x20));
      addTo(row, column + 8, first + r, fresh,
            _mm256_permute2f128_ps(low, high, 0x31));
    }
  }

  /// Adds to earlier sums of 8 columns of query i, if there are any. Whole
  /// vectors are stored where possible: masked stores take dozens of cycles on
  /// Zen.
  MOE_INLINE void addTo(float *row, int64_t column, int64_t i, bool fresh,
                        __m256 x) {
    __m256 before = _mm256_set1_ps(fresh ? 0 : alpha[i]);
    int64_t end = column + Simd::kWidth;
    forVectors<Simd>(
        column, end < shape.values ? end : shape.values,
        [&](int64_t c, auto lanes) {
          lanes.store(row + c,
                      fresh ? x : Simd::fma(before, lanes.load(row + c), x));
        });
  }

  int16_t *scaled; ///< [kQueries][kGroup]: words * rowScale.
  /// Number of cache lines that are prefetched with a block of keys.
  int64_t reads = 0;
};

} // namespace moek::MOE_ISA

#endif // MOE_KERNELS_CPU_AVX2_Q8PRODUCTS_H
