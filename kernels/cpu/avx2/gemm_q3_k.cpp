//===- gemm_q3_k.cpp - Q3_K with AVX2 -------------------------------------===//

#include "kernels/cpu/avx2/Int8Gemm.h"
#include "kernels/cpu/avx2/Rows16Gemm.h"
#include "kernels/quant/Q3_K.h"

namespace moek::avx2 {
namespace {
struct Q3_K {
  using Block = BlockQ3_K;
  static constexpr int kSpan = 256, kSub = 16, kMaxCode = 7, kZero = 4;
  static constexpr int kOffsetSub = 0, kOffsetSign = 1;

  MOE_INLINE __m256i codes(const Block *block, int v) {
    __m256i low = _mm256_and_si256(
        _mm256_srli_epi16(load256(block->low + v / 4 * 32), v % 4 * 2),
        _mm256_set1_epi8(3));
    // Bit v becomes bit 2.
    __m256i high = load256(block->high);
    high =
        v < 2 ? _mm256_slli_epi16(high, 2 - v) : _mm256_srli_epi16(high, v - 2);
    return _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi8(4)));
  }

  MOE_INLINE Lanes16 scales(const Block *block) {
    uint64_t low;
    std::memcpy(&low, block->scales, sizeof(low));
    __m128i nibbles = _mm_and_si128(
        _mm_set_epi64x(int64_t(low >> 4), int64_t(low)), _mm_set1_epi8(15));
    __m128i tops = _mm_srlv_epi32(_mm_set1_epi32(load32(block->scales + 8)),
                                  _mm_setr_epi32(0, 2, 4, 6));
    tops = _mm_slli_epi32(_mm_and_si128(tops, _mm_set1_epi8(3)), 4);
    __m128i bytes =
        _mm_sub_epi8(_mm_or_si128(nibbles, tops), _mm_set1_epi8(32));
    return scaledBytes(bytes, broadcastF16(block->d));
  }
};
} // namespace
} // namespace moek::avx2

MOE_INT8_GEMM(gemm_q3_k_avx2, Q3_K)
MOE_ROWS16_GEMM(gemm_q3_k_rows16_avx2, Q3_K)
