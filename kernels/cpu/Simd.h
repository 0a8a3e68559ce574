//===- Simd.h - The interface of an instruction set's trait -----*- C++ -*-===//
//
// Every op's kernel is a template over a trait `S`; ref/Scalar.h, avx2/Simd.h,
// avx512/Simd.h and neon/Simd.h are the traits. A trait has
//   Vec, kWidth           a vector and its number of floats
//   Num                   type of a sum over lanes: double in the reference
//   load, loadPart, store, storePart    floats; Part: the first `count` lanes
//   loadF16, loadBf16, storeF16, storeBf16    kWidth 16-bit floats
//   zero, set, add, sub, mul, div, min, max, fma(a, b, c) = a * b + c, exp
//   exp2                  2^x for x <= 0
//   reduceAdd, reduceMax, reduceAdd4    over lanes; reduceAdd4 adds each of
//                                       four vectors, or of some rows of four,
//                                       in reduceAdd's order
//   transpose4            scale times a block of 4 x 4 (kWidth > 1)
//   sumOfLanes, storeFirst, kFloatTokens, pin    for gemms (kWidth > 1): see
//                                       FloatGemm.h, Rows16Float.h
//   dupPairs, swapPairs, fmaAlternate   for RoPE on neighbours (kWidth > 1)
//   quantize32            one block of the A8 encoding
//   Dequant::X            for every format X: blocks of a row to floats
//   kDotRows, kSumRows, kSumVecs        register blocks, see Blocks.h
//   kDotHeads, kDotKeys                 register blocks, see HeadScores.h
//   Q8Products            optional: attention with integer products, see
//                         Q8Group.h
// Translation units of different instruction sets must not share a function
// that the linker merges. So all code here depends on S or is always inlined.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_SIMD_H
#define MOE_KERNELS_CPU_SIMD_H

#include "kernels/Types.h"
#include "kernels/cpu/Inline.h"

#include <cstring>

namespace moek {

/// Accesses a whole vector in memory.
template <class S> struct WholeLanes {
  using Vec = typename S::Vec;
  MOE_INLINE Vec load(const float *p) const { return S::load(p); }
  MOE_INLINE void store(float *p, Vec v) const { S::store(p, v); }
};

/// Accesses the first `count` lanes; the others read as zero.
template <class S> struct PartLanes {
  using Vec = typename S::Vec;
  int count;
  MOE_INLINE Vec load(const float *p) const { return S::loadPart(p, count); }
  MOE_INLINE void store(float *p, Vec v) const { S::storePart(p, v, count); }
};

/// Calls body(i, lanes) for all vectors of [begin, end), the tail last.
template <class S, class Body>
MOE_INLINE void forVectors(int64_t begin, int64_t end, Body body) {
  int64_t i = begin;
  for (; i + S::kWidth <= end; i += S::kWidth)
    body(i, WholeLanes<S>());
  if (i < end)
    body(i, PartLanes<S>{int(end - i)});
}

/// e^x = 2^n e^r with |r| <= ln(2)/2; minimax polynomial of the Cephes library.
/// The clamps keep n small and pass NaN on, because min and max return their
/// second operand when one is NaN; e^-105 rounds to 0 and e^89 to infinity. The
/// trait must have round (to integers), fnma(a, b, c) = c - a * b and scale(p,
/// n) = p * 2^n for any such n.
template <class S> MOE_INLINE typename S::Vec expOf(typename S::Vec x) {
  using Vec = typename S::Vec;
  x = S::max(S::set(-105.0f), S::min(S::set(89.0f), x));
  Vec n = S::round(S::mul(x, S::set(1.44269504f)));
  Vec r = S::fnma(n, S::set(0.693359375f), x);
  r = S::fnma(n, S::set(-2.12194440e-4f), r);
  Vec p = S::fma(S::set(1.9875691500e-4f), r, S::set(1.3981999507e-3f));
  p = S::fma(p, r, S::set(8.3334519073e-3f));
  p = S::fma(p, r, S::set(4.1665795894e-2f));
  p = S::fma(p, r, S::set(1.6666665459e-1f));
  p = S::fma(p, r, S::set(5.0000001201e-1f));
  p = S::add(S::fma(p, S::mul(r, r), r), S::set(1.0f));
  return S::scale(p, n);
}

/// 2^x for x <= 0; NaN for NaN; 0 below 2^-126.5, the least normal numbers. The
/// polynomial has the least relative error for |r| <= 1/2, 1e-7. Adding 1.5 *
/// 2^23 rounds to an integer, which is then in the lowest bits; with another
/// 127 they are the exponent bits of 2^n.
template <class S> MOE_INLINE typename S::Vec exp2Of(typename S::Vec x) {
  using Vec = typename S::Vec;
  const Vec toBits = S::set(12582912.0f + 127.0f);
  x = S::max(S::set(-127.0f), x);
  const Vec bits = S::add(x, toBits);
  Vec r = S::sub(x, S::sub(bits, toBits));
  Vec p = S::fma(S::set(1.326472731e-3f), r, S::set(9.671512991e-3f));
  p = S::fma(p, r, S::set(5.550733581e-2f));
  p = S::fma(p, r, S::set(2.402224243e-1f));
  p = S::fma(p, r, S::set(6.931470037e-1f));
  p = S::fma(p, r, S::set(1.0f));
  return S::mul(p, S::powerOf(bits));
}

/// x * sigmoid(y)
template <class S>
MOE_INLINE typename S::Vec timesSigmoid(typename S::Vec x, typename S::Vec y) {
  return S::div(x, S::add(S::set(1), S::exp(S::sub(S::zero(), y))));
}

/// cap * tanh(x / cap). 1 - 2 / (e^2x + 1) is off by an epsilon, so the result
/// is off by an epsilon of the cap.
template <class S>
MOE_INLINE typename S::Vec softcapped(typename S::Vec x, float cap) {
  auto e = S::exp(S::mul(x, S::set(2 / cap)));
  auto rest = S::div(S::set(2), S::add(e, S::set(1)));
  return S::mul(S::set(cap), S::sub(S::set(1), rest));
}

/// Calls body(load, store, bytes per element) for an element type without
/// blocks; load and store move one vector.
template <class S, class Body>
MOE_INLINE void withKvType(KvType type, Body body) {
  using Vec = typename S::Vec;
  switch (type) {
  case KvType::F32:
    body([](const uint8_t *p) { return S::load((const float *)p); },
         [](uint8_t *p, Vec v) { S::store((float *)p, v); }, 4);
    return;
  case KvType::F16:
    body([](const uint8_t *p) { return S::loadF16(p); },
         [](uint8_t *p, Vec v) { S::storeF16(p, v); }, 2);
    return;
  case KvType::BF16:
    body([](const uint8_t *p) { return S::loadBf16(p); },
         [](uint8_t *p, Vec v) { S::storeBf16(p, v); }, 2);
    return;
  case KvType::Q8_0: // KvRows.h has its access functions.
    return;
  }
}

/// Converts `count` cache elements at `from` to floats; see withKvType.
template <class S, class Load>
MOE_INLINE void readKvRow(Load load, int bytes, const uint8_t *from,
                          int64_t count, float *to) {
  int64_t i = 0;
#pragma GCC unroll 4
  for (; i + S::kWidth <= count; i += S::kWidth)
    S::store(to + i, load(from + i * bytes));
  int rest = int(count % S::kWidth);
  if (rest == 0)
    return;
  alignas(64) uint8_t tail[S::kWidth * 4] = {};
  std::memcpy(tail, from + i * bytes, size_t(rest * bytes));
  S::storePart(to + i, load(tail), rest);
}

/// Converts `count` cache elements at `from` to floats.
template <class S>
void readKv(KvType type, const uint8_t *from, int64_t count, float *to) {
  withKvType<S>(type, [&](auto load, auto, int bytes) {
    readKvRow<S>(load, bytes, from, count, to);
  });
}

/// Converts `count` floats to cache elements at `to`.
template <class S>
void writeKv(KvType type, const float *from, int64_t count, uint8_t *to) {
  withKvType<S>(type, [&](auto, auto store, int bytes) {
    int64_t i = 0;
    for (; i + S::kWidth <= count; i += S::kWidth)
      store(to + i * bytes, S::load(from + i));
    int rest = int(count % S::kWidth);
    if (rest == 0)
      return;
    alignas(64) uint8_t tail[S::kWidth * 4];
    store(tail, S::loadPart(from + i, rest));
    std::memcpy(to + i * bytes, tail, size_t(rest * bytes));
  });
}

} // namespace moek

#endif // MOE_KERNELS_CPU_SIMD_H
