//===- Avx512.h - Words of sixteen rows in one vector -----------*- C++ -*-===//

#ifndef MOE_KERNELS_PACK_AVX512_H
#define MOE_KERNELS_PACK_AVX512_H

#include "kernels/cpu/Inline.h"

#include <cstdint>
#include <immintrin.h>

namespace moek::avx512 {

/// A word of each of 16 rows, row r at word r.
struct Rows {
  using Words [[gnu::vector_size(64)]] = uint32_t;
  static constexpr int kParts = 1;         ///< Vectors of 16 rows.
  static constexpr bool kUsesWords = true; ///< See Quads.h.
  Words part[kParts];

  /// Loads words 0 ... 3 at `at` of each row, of which rows[r] is the start.
  MOE_INLINE static void load4(const uint8_t *const *rows, int64_t at,
                               Rows *out) {
    __m512i a = load(rows, at), b = load(rows + 1, at);
    __m512i c = load(rows + 2, at), d = load(rows + 3, at);
    __m512i ab = _mm512_unpacklo_epi32(a, b), cd = _mm512_unpacklo_epi32(c, d);
    out[0].part[0] = Words(_mm512_unpacklo_epi64(ab, cd));
    out[1].part[0] = Words(_mm512_unpackhi_epi64(ab, cd));
    ab = _mm512_unpackhi_epi32(a, b), cd = _mm512_unpackhi_epi32(c, d);
    out[2].part[0] = Words(_mm512_unpacklo_epi64(ab, cd));
    out[3].part[0] = Words(_mm512_unpackhi_epi64(ab, cd));
  }

  MOE_INLINE static void store(uint8_t *out, Words v) {
    _mm512_storeu_si512(out, __m512i(v));
  }

  /// Stores byte i of row r at out + 16 i + r, for the first `bytes` bytes.
  template <int bytes> MOE_INLINE void putBytes(uint8_t *out) const {
    __m512i quads = _mm512_shuffle_epi8(
        __m512i(part[0]),
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10,
                                             14, 3, 7, 11, 15)));
    quads = _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
        quads);
    put<bytes>(out, quads);
  }
  /// Stores bytes 2 i and 2 i + 1 of row r at out + 32 i + 2 r.
  template <int bytes> MOE_INLINE void putPairs(uint8_t *out) const {
    __m512i quads = _mm512_shuffle_epi8(
        __m512i(part[0]),
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6,
                                             7, 10, 11, 14, 15)));
    quads = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7),
                                     quads);
    put<bytes>(out, quads);
  }

private:
  /// Loads 16 bytes of each of rows 0, 4, 8 and 12.
  MOE_INLINE static __m512i load(const uint8_t *const *rows, int64_t at) {
    auto of = [&](int row) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i *>(rows[row] + at));
    };
    __m256i low =
        _mm256_inserti128_si256(_mm256_castsi128_si256(of(0)), of(4), 1);
    __m256i high =
        _mm256_inserti128_si256(_mm256_castsi128_si256(of(8)), of(12), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
  template <int bytes> MOE_INLINE static void put(uint8_t *out, __m512i v) {
    if constexpr (bytes == 4)
      _mm512_storeu_si512(out, v);
    else
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(out),
                          _mm512_castsi512_si256(v));
  }
};

} // namespace moek::avx512

#endif // MOE_KERNELS_PACK_AVX512_H
