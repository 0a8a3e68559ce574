//===- VectorInteger.cpp - Integer arithmetic, shifts and logic -----------===//

#include "test/softcpu/VectorOperations.h"

#include <algorithm>
#include <limits>

namespace moek::test {

namespace {
//===----------------------------------------------------------------------===//
// Shifts
//===----------------------------------------------------------------------===//

template <class T> constexpr T kBits = T(8 * sizeof(T));

template <class T> T shiftedLeft(T value, T count) {
  return count < kBits<T> ? T(value << count) : T(0);
}

template <class T> T shiftedRight(T value, T count) {
  return count < kBits<T> ? T(value >> count) : T(0);
}

/// Shifts with the sign; T is unsigned.
template <class T> T shiftedSigned(T value, T count) {
  T most = T(kBits<T> - 1);
  return T(std::make_signed_t<T>(value) >> (count < most ? count : most));
}

template <class T> T rotatedLeft(T value, T count) {
  return std::rotl(value, int(count % kBits<T>));
}

template <class T> T rotatedRight(T value, T count) {
  return std::rotr(value, int(count % kBits<T>));
}

/// Shifts by the low 8 bytes of the last source, which is never masked.
template <size_t Element, auto op>
void shiftByVector(const VectorInstruction &in, Registers &regs) {
  Wide a = left(in, regs), count = right<16>(in, regs);
  put<Element>(in, regs, {op(a.low, count.low), op(a.high, count.low)});
}

template <size_t Element, auto op>
void shiftByImmediate(const VectorInstruction &in, Registers &regs) {
  Wide a = right<Element>(in, regs);
  __m256i count = _mm256_set_epi64x(0, 0, 0, in.immediate);
  put<Element>(in, regs, {op(a.low, count), op(a.high, count)});
}

#define MOE_SHIFT(text)                                                        \
  [](__m256i a, __m256i count) {                                               \
    asm(text " %x2, %1, %0" : "=x"(a) : "x"(a), "x"(count));                   \
    return a;                                                                  \
  }

/// A 64-bit shift with the sign has no VEX counterpart.
__m256i shiftedSigned64(__m256i a, __m256i count) {
  auto bits = uint64_t(_mm256_extract_epi64(count, 0));
  __m128i by = _mm_cvtsi64_si128(int64_t(std::min(bits, uint64_t(63))));
  __m256i sign = _mm256_cmpgt_epi64(_mm256_setzero_si256(), a);
  __m256i flipped = _mm256_srl_epi64(_mm256_xor_si256(a, sign), by);
  return _mm256_xor_si256(flipped, sign);
}

//===----------------------------------------------------------------------===//
// Logic
//===----------------------------------------------------------------------===//

/// Each result bit is the immediate's bit whose number is formed by the bits of
/// destination, first and second source.
template <size_t Element>
void ternary(const VectorInstruction &in, Registers &regs) {
  Wide to = load(&regs.vector[in.to]), a = left(in, regs),
       b = right<Element>(in, regs);
  auto bit = [&](int i) { return _mm256_set1_epi32(-(in.immediate >> i & 1)); };
  // select ? one : zero, where `change` is one ^ zero.
  auto choose = [](__m256i select, __m256i zero, __m256i change) {
    return _mm256_xor_si256(zero, _mm256_and_si256(select, change));
  };
  __m256i zero[4], change[4];
  for (int i = 0; i < 4; ++i) {
    zero[i] = bit(2 * i);
    change[i] = _mm256_xor_si256(zero[i], bit(2 * i + 1));
  }
  auto half = [&](__m256i x, __m256i y, __m256i z) {
    __m256i by[4];
    for (int i = 0; i < 4; ++i)
      by[i] = choose(z, zero[i], change[i]);
    __m256i low = choose(y, by[0], _mm256_xor_si256(by[0], by[1]));
    __m256i high = choose(y, by[2], _mm256_xor_si256(by[2], by[3]));
    return choose(x, low, _mm256_xor_si256(low, high));
  };
  put<Element>(in, regs,
               {half(to.low, a.low, b.low), half(to.high, a.high, b.high)});
}

//===----------------------------------------------------------------------===//
// Dot products
//===----------------------------------------------------------------------===//

__m256i dotBytes(__m256i to, __m256i a, __m256i b) {
  // Multiplies unsigned bytes of a with signed bytes of b, in pairs of 16 bits:
  // those with even numbers and those with odd ones. Sums of two products are
  // exact.
  const __m256i kLow = _mm256_set1_epi16(255);
  __m256i even = _mm256_madd_epi16(
      _mm256_and_si256(a, kLow), _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8));
  __m256i odd =
      _mm256_madd_epi16(_mm256_srli_epi16(a, 8), _mm256_srai_epi16(b, 8));
  return _mm256_add_epi32(to, _mm256_add_epi32(even, odd));
}

__m256i dotWords(__m256i to, __m256i a, __m256i b) {
  return _mm256_add_epi32(to, _mm256_madd_epi16(a, b));
}

/// Adds sums of `N` products of A and B with saturation.
template <class A, class B>
void dotSaturated(const VectorInstruction &in, Registers &regs) {
  constexpr size_t kProducts = 4 / sizeof(A);
  Lanes<int32_t> to(load(&regs.vector[in.to]));
  Lanes<A> a(left(in, regs));
  Lanes<B> b(right<4>(in, regs));
  for (size_t i = 0; i < to.kCount; ++i) {
    int64_t sum = to[i];
    for (size_t j = kProducts * i; j < kProducts * (i + 1); ++j)
      sum += int64_t(a[j]) * b[j];
    to[i] = int32_t(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX));
  }
  put<4>(in, regs, to.wide());
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

#define MOE_BINARY(name, text, from, to)                                       \
  { ZYDIS_MNEMONIC_##name, Form::Vector, halves2<from, to, MOE_TWIN2(text)> }
#define MOE_EACH2(name, type, function)                                        \
  {                                                                            \
    ZYDIS_MNEMONIC_##name, Form::Vector,                                       \
        each2<type, [](type a, type b) { return function<type>(a, b); }>       \
  }
#define MOE_EACH_IMMEDIATE(name, type, function)                               \
  {                                                                            \
    ZYDIS_MNEMONIC_##name, Form::Immediate,                                    \
        eachImmediate<type, [](type a, type b) { return function(a, b); }>     \
  }
#define MOE_SHIFTS(name, text, element)                                        \
  {ZYDIS_MNEMONIC_##name, Form::Vector,                                        \
   shiftByVector<element, MOE_SHIFT(text)>},                                   \
  {                                                                            \
    ZYDIS_MNEMONIC_##name, Form::Immediate,                                    \
        shiftByImmediate<element, MOE_SHIFT(text)>                             \
  }

const VectorRow kRows[] = {
    MOE_BINARY(VPADDB, "vpaddb", 1, 1),
    MOE_BINARY(VPADDW, "vpaddw", 2, 2),
    MOE_BINARY(VPADDD, "vpaddd", 4, 4),
    MOE_BINARY(VPADDQ, "vpaddq", 8, 8),
    MOE_BINARY(VPADDSB, "vpaddsb", 1, 1),
    MOE_BINARY(VPADDSW, "vpaddsw", 2, 2),
    MOE_BINARY(VPADDUSB, "vpaddusb", 1, 1),
    MOE_BINARY(VPADDUSW, "vpaddusw", 2, 2),
    MOE_BINARY(VPSUBB, "vpsubb", 1, 1),
    MOE_BINARY(VPSUBW, "vpsubw", 2, 2),
    MOE_BINARY(VPSUBD, "vpsubd", 4, 4),
    MOE_BINARY(VPSUBQ, "vpsubq", 8, 8),
    MOE_BINARY(VPSUBSB, "vpsubsb", 1, 1),
    MOE_BINARY(VPSUBSW, "vpsubsw", 2, 2),
    MOE_BINARY(VPSUBUSB, "vpsubusb", 1, 1),
    MOE_BINARY(VPSUBUSW, "vpsubusw", 2, 2),
    MOE_BINARY(VPAVGB, "vpavgb", 1, 1),
    MOE_BINARY(VPAVGW, "vpavgw", 2, 2),
    MOE_BINARY(VPMAXSB, "vpmaxsb", 1, 1),
    MOE_BINARY(VPMAXSW, "vpmaxsw", 2, 2),
    MOE_BINARY(VPMAXSD, "vpmaxsd", 4, 4),
    MOE_BINARY(VPMAXUB, "vpmaxub", 1, 1),
    MOE_BINARY(VPMAXUW, "vpmaxuw", 2, 2),
    MOE_BINARY(VPMAXUD, "vpmaxud", 4, 4),
    MOE_BINARY(VPMINSB, "vpminsb", 1, 1),
    MOE_BINARY(VPMINSW, "vpminsw", 2, 2),
    MOE_BINARY(VPMINSD, "vpminsd", 4, 4),
    MOE_BINARY(VPMINUB, "vpminub", 1, 1),
    MOE_BINARY(VPMINUW, "vpminuw", 2, 2),
    MOE_BINARY(VPMINUD, "vpminud", 4, 4),
    MOE_EACH2(VPMAXSQ, int64_t, std::max),
    MOE_EACH2(VPMAXUQ, uint64_t, std::max),
    MOE_EACH2(VPMINSQ, int64_t, std::min),
    MOE_EACH2(VPMINUQ, uint64_t, std::min),

    MOE_BINARY(VPMULLW, "vpmullw", 2, 2),
    MOE_BINARY(VPMULLD, "vpmulld", 4, 4),
    {ZYDIS_MNEMONIC_VPMULLQ, Form::Vector,
     each2<uint64_t, [](uint64_t a, uint64_t b) { return a * b; }>},
    MOE_BINARY(VPMULHW, "vpmulhw", 2, 2),
    MOE_BINARY(VPMULHUW, "vpmulhuw", 2, 2),
    MOE_BINARY(VPMULHRSW, "vpmulhrsw", 2, 2),
    MOE_BINARY(VPMULDQ, "vpmuldq", 8, 8),
    MOE_BINARY(VPMULUDQ, "vpmuludq", 8, 8),
    MOE_BINARY(VPMADDWD, "vpmaddwd", 2, 4),
    MOE_BINARY(VPMADDUBSW, "vpmaddubsw", 1, 2),
    MOE_BINARY(VPSADBW, "vpsadbw", 1, 8),

    {ZYDIS_MNEMONIC_VPABSB, Form::Vector, halves1<1, 1, MOE_TWIN1("vpabsb")>},
    {ZYDIS_MNEMONIC_VPABSW, Form::Vector, halves1<2, 2, MOE_TWIN1("vpabsw")>},
    {ZYDIS_MNEMONIC_VPABSD, Form::Vector, halves1<4, 4, MOE_TWIN1("vpabsd")>},
    {ZYDIS_MNEMONIC_VPABSQ, Form::Vector,
     each1<uint64_t, [](uint64_t a) { return int64_t(a) < 0 ? 0 - a : a; }>},

    MOE_BINARY(VPANDD, "vpand", 4, 4),
    MOE_BINARY(VPANDQ, "vpand", 8, 8),
    MOE_BINARY(VPANDND, "vpandn", 4, 4),
    MOE_BINARY(VPANDNQ, "vpandn", 8, 8),
    MOE_BINARY(VPORD, "vpor", 4, 4),
    MOE_BINARY(VPORQ, "vpor", 8, 8),
    MOE_BINARY(VPXORD, "vpxor", 4, 4),
    MOE_BINARY(VPXORQ, "vpxor", 8, 8),
    {ZYDIS_MNEMONIC_VPTERNLOGD, Form::Vector, ternary<4>},
    {ZYDIS_MNEMONIC_VPTERNLOGQ, Form::Vector, ternary<8>},

    MOE_SHIFTS(VPSLLW, "vpsllw", 2),
    MOE_SHIFTS(VPSLLD, "vpslld", 4),
    MOE_SHIFTS(VPSLLQ, "vpsllq", 8),
    MOE_SHIFTS(VPSRLW, "vpsrlw", 2),
    MOE_SHIFTS(VPSRLD, "vpsrld", 4),
    MOE_SHIFTS(VPSRLQ, "vpsrlq", 8),
    MOE_SHIFTS(VPSRAW, "vpsraw", 2),
    MOE_SHIFTS(VPSRAD, "vpsrad", 4),
    {ZYDIS_MNEMONIC_VPSRAQ, Form::Vector, shiftByVector<8, shiftedSigned64>},
    {ZYDIS_MNEMONIC_VPSRAQ, Form::Immediate,
     shiftByImmediate<8, shiftedSigned64>},
    MOE_EACH2(VPSLLVW, uint16_t, shiftedLeft),
    MOE_BINARY(VPSLLVD, "vpsllvd", 4, 4),
    MOE_BINARY(VPSLLVQ, "vpsllvq", 8, 8),
    MOE_EACH2(VPSRLVW, uint16_t, shiftedRight),
    MOE_BINARY(VPSRLVD, "vpsrlvd", 4, 4),
    MOE_BINARY(VPSRLVQ, "vpsrlvq", 8, 8),
    MOE_EACH2(VPSRAVW, uint16_t, shiftedSigned),
    MOE_BINARY(VPSRAVD, "vpsravd", 4, 4),
    MOE_EACH2(VPSRAVQ, uint64_t, shiftedSigned),
    MOE_EACH2(VPROLVD, uint32_t, rotatedLeft),
    MOE_EACH2(VPROLVQ, uint64_t, rotatedLeft),
    MOE_EACH2(VPRORVD, uint32_t, rotatedRight),
    MOE_EACH2(VPRORVQ, uint64_t, rotatedRight),
    MOE_EACH_IMMEDIATE(VPROLD, uint32_t, rotatedLeft),
    MOE_EACH_IMMEDIATE(VPROLQ, uint64_t, rotatedLeft),
    MOE_EACH_IMMEDIATE(VPRORD, uint32_t, rotatedRight),
    MOE_EACH_IMMEDIATE(VPRORQ, uint64_t, rotatedRight),

    {ZYDIS_MNEMONIC_VPDPBUSD, Form::Vector, halves3<4, 4, dotBytes>},
    {ZYDIS_MNEMONIC_VPDPWSSD, Form::Vector, halves3<4, 4, dotWords>},
    {ZYDIS_MNEMONIC_VPDPBUSDS, Form::Vector, dotSaturated<uint8_t, int8_t>},
    {ZYDIS_MNEMONIC_VPDPWSSDS, Form::Vector, dotSaturated<int16_t, int16_t>},
};
} // namespace

std::span<const VectorRow> integerRows() { return kRows; }

} // namespace moek::test
