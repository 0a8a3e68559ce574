//===- VectorConversion.cpp - Conversions between element types -----------===//

#include "test/softcpu/VectorConversion.h"

#include "test/amx/Bf16Sum.h"

#include <algorithm>
#include <limits>

namespace moek::test {

namespace {
//===----------------------------------------------------------------------===//
// Conversions of as many elements as the vector has of the larger type
//===----------------------------------------------------------------------===//

template <class From, class To>
constexpr size_t kLarger = sizeof(From) > sizeof(To) ? sizeof(From)
                                                     : sizeof(To);

template <class From, class To, auto op> Wide converted(const Wide &a) {
  Lanes<From> from(a);
  Lanes<To> r;
  for (size_t i = 0; i < sizeof(Vector) / kLarger<From, To>; ++i)
    r[i] = op(from[i]);
  return r.wide();
}

template <class From, class To>
size_t resultBytes(const VectorInstruction &in) {
  return in.bytes / kLarger<From, To> * sizeof(To);
}

template <class From, class To, auto op>
void convert(const VectorInstruction &in, Registers &regs) {
  Wide r = converted<From, To, op>(right<sizeof(From)>(in, regs));
  if (sizeof(To) >= sizeof(From))
    put<sizeof(To)>(in, regs, r);
  else
    putPart<sizeof(To)>(in, regs, r, resultBytes<From, To>(in));
}

template <class From, class To, auto op>
void convertToMemory(const VectorInstruction &in, Registers &regs) {
  Wide r = converted<From, To, op>(load(&regs.vector[in.right]));
  putMemory<sizeof(To)>(in, regs, r, resultBytes<From, To>(in));
}

template <class From, class To> To cast(From value) { return To(value); }

template <class From, class To> To saturated(From value) {
  constexpr From kLeast = From(std::numeric_limits<To>::min());
  constexpr From kMost = From(std::numeric_limits<To>::max());
  return To(std::clamp(value, kLeast, kMost));
}

//===----------------------------------------------------------------------===//
// Half precision
//===----------------------------------------------------------------------===//

void fromHalf(const VectorInstruction &in, Registers &regs) {
  __m256i a = right<2>(in, regs).low;
  __m256 low = _mm256_cvtph_ps(_mm256_castsi256_si128(a));
  __m256 high = _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1));
  put<4>(in, regs, {_mm256_castps_si256(low), _mm256_castps_si256(high)});
}

Wide toHalf(const VectorInstruction &in, const Registers &regs) {
  Wide a = load(&regs.vector[in.right]);
  auto half = [&](__m256i floats) {
    __m256 from = _mm256_castsi256_ps(floats);
    switch (in.immediate & 7) {
    case 0:
      return _mm256_cvtps_ph(from, 0);
    case 1:
      return _mm256_cvtps_ph(from, 1);
    case 2:
      return _mm256_cvtps_ph(from, 2);
    case 3:
      return _mm256_cvtps_ph(from, 3);
    default:
      return _mm256_cvtps_ph(from, 4);
    }
  };
  return {_mm256_set_m128i(half(a.high), half(a.low)), _mm256_setzero_si256()};
}

void toHalfVector(const VectorInstruction &in, Registers &regs) {
  putPart<2>(in, regs, toHalf(in, regs), in.bytes / 2);
}

void toHalfMemory(const VectorInstruction &in, Registers &regs) {
  putMemory<2>(in, regs, toHalf(in, regs), in.bytes / 2);
}

//===----------------------------------------------------------------------===//
// BF16
//===----------------------------------------------------------------------===//

/// Rounds to nearest even; denormals become zero and NaNs quiet.
uint16_t narrowToBf16(uint32_t bits) {
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return uint16_t(bits >> 16 | 0x40);
  if (magnitude < 0x00800000)
    return uint16_t(bits >> 16 & 0x8000);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// The result has the last source's numbers, then the first's.
void narrowTwoToBf16(const VectorInstruction &in, Registers &regs) {
  Lanes<uint32_t> a(left(in, regs)), b(right<4>(in, regs));
  Lanes<uint16_t> r;
  size_t half = in.bytes / 4;
  for (size_t i = 0; i < half; ++i) {
    r[i] = narrowToBf16(b[i]);
    r[half + i] = narrowToBf16(a[i]);
  }
  put<2>(in, regs, r.wide());
}

/// The product of odd elements is added first; each sum is rounded.
void dotBf16(const VectorInstruction &in, Registers &regs) {
  Lanes<float> to(load(&regs.vector[in.to]));
  Lanes<uint16_t> a(left(in, regs)), b(right<4>(in, regs));
  for (size_t i = 0; i < to.kCount; ++i) {
    float sum = flushed(to[i]);
    for (size_t j : {2 * i + 1, 2 * i})
      sum = addRounded(double(sum),
                       double(widenBf16(a[j])) * double(widenBf16(b[j])));
    to[i] = sum;
  }
  put<4>(in, regs, to.wide());
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

#define MOE_ROW(name, form, ...)                                               \
  { ZYDIS_MNEMONIC_##name, Form::form, __VA_ARGS__ }
#define MOE_CONVERT(name, from, to)                                            \
  MOE_ROW(name, Vector, convert<from, to, cast<from, to>>)
#define MOE_ROUND(name, from, to)                                              \
  MOE_ROW(VCVT##name, Vector, convert<from, to, toInteger<from, to, false>>)
#define MOE_TRUNCATE(name, from, to)                                           \
  MOE_ROW(VCVTT##name, Vector, convert<from, to, toInteger<from, to, true>>)
#define MOE_NARROW(name, from, to, op)                                         \
  MOE_ROW(name, Vector, convert<from, to, op<from, to>>),                      \
      MOE_ROW(name, Store, convertToMemory<from, to, op<from, to>>)
#define MOE_NARROWS(letters, from, to)                                         \
  MOE_NARROW(VPMOV##letters, u##from, u##to, cast),                            \
      MOE_NARROW(VPMOVS##letters, from, to, saturated),                        \
      MOE_NARROW(VPMOVUS##letters, u##from, u##to, saturated)
#define MOE_WIDEN(letters, from, to)                                           \
  MOE_CONVERT(VPMOVSX##letters, from, to),                                     \
      MOE_CONVERT(VPMOVZX##letters, u##from, u##to)

const VectorRow kRows[] = {
    MOE_WIDEN(BW, int8_t, int16_t),
    MOE_WIDEN(BD, int8_t, int32_t),
    MOE_WIDEN(BQ, int8_t, int64_t),
    MOE_WIDEN(WD, int16_t, int32_t),
    MOE_WIDEN(WQ, int16_t, int64_t),
    MOE_WIDEN(DQ, int32_t, int64_t),
    MOE_NARROWS(WB, int16_t, int8_t),
    MOE_NARROWS(DB, int32_t, int8_t),
    MOE_NARROWS(QB, int64_t, int8_t),
    MOE_NARROWS(DW, int32_t, int16_t),
    MOE_NARROWS(QW, int64_t, int16_t),
    MOE_NARROWS(QD, int64_t, int32_t),

    MOE_ROW(VCVTDQ2PS, Vector, halves1<4, 4, MOE_TWIN1("vcvtdq2ps")>),
    MOE_ROW(VCVTPS2DQ, Vector, halves1<4, 4, MOE_TWIN1("vcvtps2dq")>),
    MOE_ROW(VCVTTPS2DQ, Vector, halves1<4, 4, MOE_TWIN1("vcvttps2dq")>),
    MOE_CONVERT(VCVTUDQ2PS, uint32_t, float),
    MOE_CONVERT(VCVTDQ2PD, int32_t, double),
    MOE_CONVERT(VCVTUDQ2PD, uint32_t, double),
    MOE_CONVERT(VCVTQQ2PS, int64_t, float),
    MOE_CONVERT(VCVTUQQ2PS, uint64_t, float),
    MOE_CONVERT(VCVTQQ2PD, int64_t, double),
    MOE_CONVERT(VCVTUQQ2PD, uint64_t, double),
    MOE_CONVERT(VCVTPS2PD, float, double),
    MOE_CONVERT(VCVTPD2PS, double, float),
    MOE_ROUND(PS2UDQ, float, uint32_t),
    MOE_ROUND(PD2DQ, double, int32_t),
    MOE_ROUND(PD2UDQ, double, uint32_t),
    MOE_ROUND(PS2QQ, float, int64_t),
    MOE_ROUND(PS2UQQ, float, uint64_t),
    MOE_ROUND(PD2QQ, double, int64_t),
    MOE_ROUND(PD2UQQ, double, uint64_t),
    MOE_TRUNCATE(PS2UDQ, float, uint32_t),
    MOE_TRUNCATE(PD2DQ, double, int32_t),
    MOE_TRUNCATE(PD2UDQ, double, uint32_t),
    MOE_TRUNCATE(PS2QQ, float, int64_t),
    MOE_TRUNCATE(PS2UQQ, float, uint64_t),
    MOE_TRUNCATE(PD2QQ, double, int64_t),
    MOE_TRUNCATE(PD2UQQ, double, uint64_t),

    MOE_ROW(VCVTPH2PS, Vector, fromHalf),
    MOE_ROW(VCVTPS2PH, Immediate, toHalfVector),
    MOE_ROW(VCVTPS2PH, Store, toHalfMemory),
    MOE_ROW(VCVTNEPS2BF16, Vector, convert<uint32_t, uint16_t, narrowToBf16>),
    MOE_ROW(VCVTNE2PS2BF16, Vector, narrowTwoToBf16),
    MOE_ROW(VDPBF16PS, Vector, dotBf16),
};
} // namespace

std::span<const VectorRow> conversionRows() { return kRows; }

} // namespace moek::test
