//===- Avx2.h - Words of sixteen rows in two vectors ------------*- C++ -*-===//

#ifndef MOE_KERNELS_PACK_AVX2_H
#define MOE_KERNELS_PACK_AVX2_H

#include "kernels/cpu/Inline.h"

#include <cstdint>
#include <immintrin.h>

namespace moek::avx2 {

/// A word of each of 16 rows, row r at word r % 8 of part r / 8.
struct Rows {
  using Words [[gnu::vector_size(32)]] = uint32_t;
  static constexpr int kParts = 2;         ///< Vectors of 16 rows.
  static constexpr bool kUsesWords = true; ///< See Quads.h.
  Words part[kParts];

  /// Loads words 0 ... 3 at `at` of each row, of which rows[r] is the start.
  MOE_INLINE static void load4(const uint8_t *const *rows, int64_t at,
                               Rows *out) {
    for (int p = 0; p < kParts; ++p, rows += 8) {
      __m256i a = load(rows, at), b = load(rows + 1, at);
      __m256i c = load(rows + 2, at), d = load(rows + 3, at);
      __m256i ab = _mm256_unpacklo_epi32(a, b);
      __m256i cd = _mm256_unpacklo_epi32(c, d);
      out[0].part[p] = Words(_mm256_unpacklo_epi64(ab, cd));
      out[1].part[p] = Words(_mm256_unpackhi_epi64(ab, cd));
      ab = _mm256_unpackhi_epi32(a, b), cd = _mm256_unpackhi_epi32(c, d);
      out[2].part[p] = Words(_mm256_unpacklo_epi64(ab, cd));
      out[3].part[p] = Words(_mm256_unpackhi_epi64(ab, cd));
    }
  }

  MOE_INLINE static void store(uint8_t *out, Words v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(out), __m256i(v));
  }

  /// Stores byte i of row r at out + 16 i + r, for the first `bytes` bytes.
  template <int bytes> MOE_INLINE void putBytes(uint8_t *out) const {
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    // Eight rows of byte i are the eight bytes i of a part.
    auto sorted = [&](int p) {
      return _mm256_permutevar8x32_epi32(
          _mm256_shuffle_epi8(__m256i(part[p]), order),
          _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    };
    __m256i a = sorted(0), b = sorted(1);
    __m256i even = _mm256_unpacklo_epi64(a, b);
    __m256i odd = _mm256_unpackhi_epi64(a, b);
    put(out, _mm256_castsi256_si128(even));
    put(out + 16, _mm256_castsi256_si128(odd));
    if constexpr (bytes == 4) {
      put(out + 32, _mm256_extracti128_si256(even, 1));
      put(out + 48, _mm256_extracti128_si256(odd, 1));
    }
  }
  /// Stores bytes 2 i and 2 i + 1 of row r at out + 32 i + 2 r.
  template <int bytes> MOE_INLINE void putPairs(uint8_t *out) const {
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    for (int p = 0; p < kParts; ++p) {
      __m256i pairs = _mm256_permute4x64_epi64(
          _mm256_shuffle_epi8(__m256i(part[p]), order), 0xd8);
      put(out + 16 * p, _mm256_castsi256_si128(pairs));
      if constexpr (bytes == 4)
        put(out + 32 + 16 * p, _mm256_extracti128_si256(pairs, 1));
    }
  }

private:
  /// Loads 16 bytes of each of rows 0 and 4.
  MOE_INLINE static __m256i load(const uint8_t *const *rows, int64_t at) {
    auto of = [&](int row) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i *>(rows[row] + at));
    };
    return _mm256_inserti128_si256(_mm256_castsi128_si256(of(0)), of(4), 1);
  }
  MOE_INLINE static void put(uint8_t *out, __m128i v) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(out), v);
  }
};

} // namespace moek::avx2

#endif // MOE_KERNELS_PACK_AVX2_H
