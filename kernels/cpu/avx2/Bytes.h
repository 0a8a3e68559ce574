//===- Bytes.h - Operations on 32 bytes, AVX2 -------------------*- C++ -*-===//
//
// The operations of cpu/lanes8/Bytes.h for AVX2 and AVX-VNNI: an instruction
// each, or two.
//
// Everything here has internal linkage: see kernels/CMakeLists.txt.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX2_BYTES_H
#define MOE_KERNELS_CPU_AVX2_BYTES_H

#include "kernels/cpu/avx2/Products.h"
#include "kernels/cpu/avx2/Simd.h"

namespace moek::MOE_ISA {
namespace {

using Floats = __m256;
using Ints = __m256i;
using Bytes16 = __m128i;

MOE_INLINE Ints load256(const void *p) {
  return _mm256_loadu_si256(static_cast<const __m256i *>(p));
}
MOE_INLINE Bytes16 load128(const void *p) {
  return _mm_loadu_si128(static_cast<const __m128i *>(p));
}
MOE_INLINE Bytes16 load64(const void *p) {
  return _mm_loadl_epi64(static_cast<const __m128i *>(p));
}
MOE_INLINE void store(void *p, Ints v) {
  _mm256_store_si256(static_cast<__m256i *>(p), v);
}

MOE_INLINE Ints set8(int x) { return _mm256_set1_epi8(char(x)); }
MOE_INLINE Ints set16(int x) { return _mm256_set1_epi16(short(x)); }
MOE_INLINE Ints set32(int x) { return _mm256_set1_epi32(x); }
MOE_INLINE Ints set64(uint64_t x) { return _mm256_set1_epi64x(int64_t(x)); }
MOE_INLINE Ints list32(int a, int b, int c, int d, int e, int f, int g, int h) {
  return _mm256_setr_epi32(a, b, c, d, e, f, g, h);
}
MOE_INLINE Ints list64(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  return _mm256_setr_epi64x(int64_t(a), int64_t(b), int64_t(c), int64_t(d));
}
MOE_INLINE Bytes16 bytes16(uint64_t low, uint64_t high) {
  return _mm_set_epi64x(int64_t(high), int64_t(low));
}
MOE_INLINE Bytes16 bytes16(int a, int b, int c, int d) {
  return _mm_setr_epi32(a, b, c, d);
}
MOE_INLINE Ints twice(Bytes16 v) { return _mm256_broadcastsi128_si256(v); }
MOE_INLINE Ints join(Bytes16 low, Bytes16 high) {
  return _mm256_set_m128i(high, low);
}
MOE_INLINE Bytes16 lowHalf(Ints v) { return _mm256_castsi256_si128(v); }

MOE_INLINE Ints bitAnd(Ints a, Ints b) { return _mm256_and_si256(a, b); }
MOE_INLINE Ints bitOr(Ints a, Ints b) { return _mm256_or_si256(a, b); }
MOE_INLINE Ints bitXor(Ints a, Ints b) { return _mm256_xor_si256(a, b); }
MOE_INLINE Ints andNot(Ints a, Ints b) { return _mm256_andnot_si256(b, a); }
MOE_INLINE Ints equal8(Ints a, Ints b) { return _mm256_cmpeq_epi8(a, b); }
MOE_INLINE Ints equal32(Ints a, Ints b) { return _mm256_cmpeq_epi32(a, b); }
MOE_INLINE Ints shiftRight16(Ints v, int n) { return _mm256_srli_epi16(v, n); }
MOE_INLINE Ints shiftLeft16(Ints v, int n) { return _mm256_slli_epi16(v, n); }
MOE_INLINE Ints shiftSigned16(Ints v, int n) { return _mm256_srai_epi16(v, n); }
MOE_INLINE Ints shiftRight32(Ints v, int n) { return _mm256_srli_epi32(v, n); }
MOE_INLINE Ints shiftLeft32(Ints v, int n) { return _mm256_slli_epi32(v, n); }
MOE_INLINE Ints shiftSigned32(Ints v, int n) { return _mm256_srai_epi32(v, n); }
MOE_INLINE Ints shiftRightEach32(Ints v, Ints n) {
  return _mm256_srlv_epi32(v, n);
}
MOE_INLINE Ints add8(Ints a, Ints b) { return _mm256_add_epi8(a, b); }
MOE_INLINE Ints sub8(Ints a, Ints b) { return _mm256_sub_epi8(a, b); }
MOE_INLINE Ints add16(Ints a, Ints b) { return _mm256_add_epi16(a, b); }
MOE_INLINE Ints sub16(Ints a, Ints b) { return _mm256_sub_epi16(a, b); }
MOE_INLINE Ints mul16(Ints a, Ints b) { return _mm256_mullo_epi16(a, b); }
MOE_INLINE Ints add32(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
MOE_INLINE Ints sub32(Ints a, Ints b) { return _mm256_sub_epi32(a, b); }
MOE_INLINE Ints max32(Ints a, Ints b) { return _mm256_max_epi32(a, b); }
MOE_INLINE Ints pairProducts(Ints a, Ints b) { return _mm256_madd_epi16(a, b); }
MOE_INLINE Ints shuffle(Ints v, Ints index) {
  return _mm256_shuffle_epi8(v, index);
}

MOE_INLINE Ints signed16(Bytes16 v) { return _mm256_cvtepi8_epi16(v); }
MOE_INLINE Ints unsigned16(Bytes16 v) { return _mm256_cvtepu8_epi16(v); }
MOE_INLINE Ints signed32(Bytes16 v) { return _mm256_cvtepi8_epi32(v); }
MOE_INLINE Ints unsigned32(Bytes16 v) { return _mm256_cvtepu8_epi32(v); }
MOE_INLINE Ints lowWords32(Ints v) {
  return _mm256_cvtepi16_epi32(_mm256_castsi256_si128(v));
}
MOE_INLINE Ints highWords32(Ints v) {
  return _mm256_cvtepi16_epi32(_mm256_extracti128_si256(v, 1));
}
MOE_INLINE Floats toFloats(Ints v) { return _mm256_cvtepi32_ps(v); }
MOE_INLINE Floats asFloats(Ints v) { return _mm256_castsi256_ps(v); }
MOE_INLINE Ints asInts(Floats v) { return _mm256_castps_si256(v); }
MOE_INLINE Floats halves(Bytes16 v) { return _mm256_cvtph_ps(v); }
MOE_INLINE Floats broadcastHalf(int16_t bits) {
  return _mm256_cvtph_ps(_mm_set1_epi16(bits));
}
MOE_INLINE Floats negatedFma(Floats a, Floats b, Floats c) {
  return _mm256_fnmsub_ps(a, b, c);
}

MOE_INLINE Bytes16 upper8(Bytes16 v) { return _mm_srli_si128(v, 8); }
MOE_INLINE Bytes16 interleave(Bytes16 a, Bytes16 b) {
  return _mm_unpacklo_epi8(a, b);
}
MOE_INLINE Bytes16 lowNibbles(Bytes16 v) {
  return _mm_and_si128(v, _mm_set1_epi8(15));
}
MOE_INLINE Bytes16 highNibbles(Bytes16 v) {
  return lowNibbles(_mm_srli_epi16(v, 4));
}
MOE_INLINE Bytes16 shiftBytes7(Bytes16 v) {
  return _mm_slli_epi16(_mm_cvtepu8_epi16(v), 7);
}
MOE_INLINE Ints nibbles(Bytes16 v) {
  Ints both = _mm256_inserti128_si256(_mm256_castsi128_si256(v),
                                      _mm_srli_epi16(v, 4), 1);
  return _mm256_and_si256(both, _mm256_set1_epi8(15));
}
MOE_INLINE Ints nibbleOctets(Bytes16 v) {
  Bytes16 high = _mm_srli_epi16(v, 4);
  Ints both = join(_mm_unpacklo_epi64(v, high), _mm_unpackhi_epi64(v, high));
  return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

MOE_INLINE Floats broadcastLane(Floats v, int i) {
  return _mm256_permutevar8x32_ps(v, _mm256_set1_epi32(i));
}
MOE_INLINE Floats spreadPair(Floats v, int i) {
  return _mm256_permutevar8x32_ps(
      v, _mm256_setr_epi32(i, i, i, i, i + 1, i + 1, i + 1, i + 1));
}
MOE_INLINE Floats lowTwice(Floats v) {
  return _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
}
MOE_INLINE Floats highTwice(Floats v) {
  return _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7));
}

using Mask = __m256i;
MOE_INLINE Mask firstLanes(int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(int32_t(count < 8 ? count : 8)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
MOE_INLINE Floats loadMasked(const float *p, Mask mask) {
  return _mm256_maskload_ps(p, mask);
}
MOE_INLINE void storeMasked(float *p, Mask mask, Floats v) {
  _mm256_maskstore_ps(p, mask, v);
}

/// Transposes with 24 shuffles.
MOE_INLINE void transpose8x8(Ints r[8]) {
  __m256i t[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  __m256i u[8];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    u[4 * i] = _mm256_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    u[4 * i + 1] = _mm256_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    u[4 * i + 2] = _mm256_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    u[4 * i + 3] = _mm256_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    r[c] = _mm256_permute2x128_si256(u[c], u[4 + c], 0x20);
    r[4 + c] = _mm256_permute2x128_si256(u[c], u[4 + c], 0x31);
  }
}

constexpr bool kSignedDots = false, kHasMatrices = false;

/// The text of sets with kHasMatrices names these; no code calls them.
template <class V> void storePair(uint8_t *first, uint8_t *second, V a, V b);
template <int Columns, int T, class... Args> void matrixDots(Args... args);

/// u8 times s8, pairs of products added with saturation.
MOE_INLINE Ints byteProducts(Ints codes, Ints x) {
  return _mm256_maddubs_epi16(codes, x);
}
/// Multiplies codes with activations and adds pairs; pairProducts() of the
/// result with ones is sums of four products per int32 lane.
template <class F> MOE_INLINE Ints products16(Ints codes, Ints x) {
  if constexpr (F::kMaxCode == 0)
    return byteProducts(_mm256_abs_epi8(codes), _mm256_sign_epi8(x, codes));
  return byteProducts(codes, x);
}
/// Returns a + b, and keeps this order: GCC would reorder a chain of such sums,
/// compute all products before the first of them and spill those.
MOE_INLINE Ints addInOrder16(Ints a, Ints b) {
  Ints sum = add16(a, b);
  __asm__("" : "+x"(sum));
  return sum;
}
MOE_INLINE Ints addInOrder32(Ints a, Ints b) {
  Ints sum = add32(a, b);
  __asm__("" : "+x"(sum));
  return sum;
}
/// Stores the initial values of the 16-bit sums of the 32 columns at `q`: -Zero
/// times activations, in the lane that gets the products of the same columns.
/// A sum for each `Sub` columns; all 32-bit lanes are equal.
template <int Zero, int Sub>
MOE_INLINE void laneStarts(const int8_t *q, int32_t *to) {
  Ints sums = byteProducts(set8(Zero), load256(q));
  sums = add16(sums, _mm256_shuffle_epi32(sums, 0x4e));
  sums = add16(sums, _mm256_shuffle_epi32(sums, 0xb1));
  if constexpr (Sub == 32)
    sums = add16(sums, _mm256_permute4x64_epi64(sums, 0x4e));
  sums = sub16(_mm256_setzero_si256(), sums);
  to[0] = _mm256_cvtsi256_si32(sums);
  if constexpr (Sub == 16)
    to[1] = _mm256_extract_epi32(sums, 4);
}

/// A pack works within each 128-bit lane: so the first vector of a column has
/// rows 0 .. 3 and 8 .. 11, the second the other rows.
struct HalfColumns {
  MOE_INLINE static void column(const uint8_t *tile, int c, Floats to[2]) {
    Ints low = load256(tile), high = load256(tile + 32);
    Ints lower = set32(0xffff);
    Ints all =
        c == 0 ? _mm256_packus_epi32(bitAnd(low, lower), bitAnd(high, lower))
               : _mm256_packus_epi32(shiftRight32(low, 16),
                                     shiftRight32(high, 16));
    to[0] = halves(lowHalf(all));
    to[1] = halves(_mm256_extracti128_si256(all, 1));
  }
  MOE_INLINE static void rows(Floats v[2]) {
    __m256 low = _mm256_permute2f128_ps(v[0], v[1], 0x20);
    v[1] = _mm256_permute2f128_ps(v[0], v[1], 0x31);
    v[0] = low;
  }
};

} // namespace
} // namespace moek::MOE_ISA

#endif // MOE_KERNELS_CPU_AVX2_BYTES_H
