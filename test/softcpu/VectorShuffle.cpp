//===- VectorShuffle.cpp - Instructions that reorder elements -------------===//

#include "test/softcpu/VectorOperations.h"

#include <algorithm>

namespace moek::test {

namespace {
template <class T> size_t count(const VectorInstruction &in) {
  return in.bytes / sizeof(T);
}

//===----------------------------------------------------------------------===//
// Across a whole vector
//===----------------------------------------------------------------------===//

/// Each element is the one of the last source whose number is in the first.
template <class T> void permute(const VectorInstruction &in, Registers &regs) {
  Lanes<T> numbers(left(in, regs)), a(right<sizeof(T)>(in, regs)), r;
  for (size_t i = 0; i < r.kCount; ++i)
    r[i] = a[size_t(numbers[i]) & (count<T>(in) - 1)];
  put<sizeof(T)>(in, regs, r.wide());
}

template <>
void permute<uint32_t>(const VectorInstruction &in, Registers &regs) {
  Wide numbers = left(in, regs), a = right<4>(in, regs);
  __m256i upper = in.bytes == sizeof(Vector) ? a.high : a.low;
  auto half = [&](__m256i by) {
    __m256 low = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(a.low, by));
    __m256 high = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(upper, by));
    __m256 chooses = _mm256_castsi256_ps(_mm256_slli_epi32(by, 28));
    return _mm256_castps_si256(_mm256_blendv_ps(low, high, chooses));
  };
  put<4>(in, regs, {half(numbers.low), half(numbers.high)});
}

/// Numbers select from the elements of `first`, followed by those of `second`.
template <class T>
Wide permuted(const VectorInstruction &in, const Lanes<T> &numbers,
              const Lanes<T> &first, const Lanes<T> &second) {
  T both[2 * Lanes<T>::kCount];
  size_t n = count<T>(in);
  std::memcpy(both, first.at, sizeof(first.at));
  std::memcpy(both + n, second.at, sizeof(second.at));
  Lanes<T> r;
  for (size_t i = 0; i < r.kCount; ++i)
    r[i] = both[size_t(numbers[i]) & (2 * n - 1)];
  return r.wide();
}

/// vpermt2*: the destination is the first table.
template <class T>
void permuteTables(const VectorInstruction &in, Registers &regs) {
  Lanes<T> to(load(&regs.vector[in.to])), a(left(in, regs)),
      b(right<sizeof(T)>(in, regs));
  put<sizeof(T)>(in, regs, permuted(in, a, to, b));
}

/// vpermi2*: the destination contains the numbers.
template <class T>
void permuteIndices(const VectorInstruction &in, Registers &regs) {
  Lanes<T> to(load(&regs.vector[in.to])), a(left(in, regs)),
      b(right<sizeof(T)>(in, regs));
  put<sizeof(T)>(in, regs, permuted(in, to, a, b));
}

/// Shifts the last source, with the first source above it, down by elements.
template <class T> void align(const VectorInstruction &in, Registers &regs) {
  Lanes<T> a(left(in, regs)), b(right<sizeof(T)>(in, regs)), numbers;
  for (size_t i = 0; i < numbers.kCount; ++i)
    numbers[i] = T(i + (in.immediate & (count<T>(in) - 1)));
  put<sizeof(T)>(in, regs, permuted(in, numbers, b, a));
}

/// Selects groups of 16 bytes; the lower half of them are from the first
/// source.
template <size_t Element>
void shuffleGroups(const VectorInstruction &in, Registers &regs) {
  struct Group {
    std::byte bytes[16];
  } a[4], b[4], r[4] = {};
  Wide from[2] = {left(in, regs), right<Element>(in, regs)};
  std::memcpy(a, &from[0], sizeof(a));
  std::memcpy(b, &from[1], sizeof(b));
  unsigned n = in.bytes / 16u, width = n == 4 ? 2 : 1, control = in.immediate;
  for (unsigned i = 0; i < n; ++i, control >>= width)
    r[i] = (i < n / 2 ? a : b)[control & (n - 1)];
  put<Element>(in, regs, load(r));
}

/// vpermq, vpermpd by an immediate, within 32 bytes.
void permuteQuarters(const VectorInstruction &in, Registers &regs) {
  Lanes<uint64_t> a(right<8>(in, regs)), r;
  for (size_t i = 0; i < r.kCount; ++i)
    r[i] = a[(i & ~size_t(3)) + (in.immediate >> 2 * (i & 3) & 3)];
  put<8>(in, regs, r.wide());
}

//===----------------------------------------------------------------------===//
// Within groups of 16 bytes, by an immediate
//===----------------------------------------------------------------------===//

/// Returns the bits of an immediate that select element `i`: two bits for each
/// of four, or one for each of two, which continue from group to group.
template <class T> size_t choice(const VectorInstruction &in, size_t i) {
  if constexpr (sizeof(T) == 4)
    return in.immediate >> 2 * (i & 3) & 3;
  else
    return in.immediate >> i & 1;
}

template <class T> void shuffle1(const VectorInstruction &in, Registers &regs) {
  constexpr size_t kGroup = 16 / sizeof(T);
  Lanes<T> a(right<sizeof(T)>(in, regs)), r;
  for (size_t i = 0; i < r.kCount; ++i)
    r[i] = a[i / kGroup * kGroup + choice<T>(in, i)];
  put<sizeof(T)>(in, regs, r.wide());
}

/// The lower half of each group is from the first source.
template <class T> void shuffle2(const VectorInstruction &in, Registers &regs) {
  constexpr size_t kGroup = 16 / sizeof(T);
  Lanes<T> a(left(in, regs)), b(right<sizeof(T)>(in, regs)), r;
  for (size_t i = 0; i < r.kCount; ++i)
    r[i] =
        (i % kGroup < kGroup / 2 ? a
                                 : b)[i / kGroup * kGroup + choice<T>(in, i)];
  put<sizeof(T)>(in, regs, r.wide());
}

/// Reorders four words of each group, from word `First` on.
template <size_t First>
void shuffleWords(const VectorInstruction &in, Registers &regs) {
  Lanes<uint16_t> a(right<2>(in, regs)), r = a;
  for (size_t group = First; group < r.kCount; group += 8)
    for (size_t i = 0; i < 4; ++i)
      r[group + i] = a[group + (in.immediate >> 2 * i & 3)];
  put<2>(in, regs, r.wide());
}

/// Shifts each group of the last source, with that of the first above it, down
/// by bytes.
void alignGroups(const VectorInstruction &in, Registers &regs) {
  Lanes<uint8_t> a(left(in, regs)), b(right<1>(in, regs)), r;
  for (size_t i = 0; i < r.kCount; ++i) {
    size_t group = i / 16 * 16, from = i % 16 + in.immediate;
    r[i] = from < 16 ? b[group + from] : from < 32 ? a[group + from - 16] : 0;
  }
  put<1>(in, regs, r.wide());
}

template <bool Left>
void shiftGroups(const VectorInstruction &in, Registers &regs) {
  Lanes<uint8_t> a(right<1>(in, regs)), r;
  size_t by = in.immediate;
  for (size_t i = 0; i < r.kCount; ++i) {
    size_t group = i / 16 * 16, at = i % 16;
    if (Left)
      r[i] = at >= by ? a[group + at - by] : 0;
    else
      r[i] = at + by < 16 ? a[group + at + by] : 0;
  }
  put<1>(in, regs, r.wide());
}

/// Repeats element `From` of each pair.
template <class T, size_t From>
void duplicate(const VectorInstruction &in, Registers &regs) {
  Lanes<T> a(right<sizeof(T)>(in, regs)), r;
  for (size_t i = 0; i < r.kCount; ++i)
    r[i] = a[(i & ~size_t(1)) + From];
  put<sizeof(T)>(in, regs, r.wide());
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

#define MOE_ROW(name, form, ...)                                               \
  { ZYDIS_MNEMONIC_##name, Form::form, __VA_ARGS__ }
#define MOE_BINARY(name, text, from, to)                                       \
  MOE_ROW(name, Vector, halves2<from, to, MOE_TWIN2(text)>)

const VectorRow kRows[] = {
    MOE_BINARY(VPSHUFB, "vpshufb", 1, 1),
    MOE_BINARY(VPUNPCKLBW, "vpunpcklbw", 1, 1),
    MOE_BINARY(VPUNPCKLWD, "vpunpcklwd", 2, 2),
    MOE_BINARY(VPUNPCKLDQ, "vpunpckldq", 4, 4),
    MOE_BINARY(VPUNPCKLQDQ, "vpunpcklqdq", 8, 8),
    MOE_BINARY(VPUNPCKHBW, "vpunpckhbw", 1, 1),
    MOE_BINARY(VPUNPCKHWD, "vpunpckhwd", 2, 2),
    MOE_BINARY(VPUNPCKHDQ, "vpunpckhdq", 4, 4),
    MOE_BINARY(VPUNPCKHQDQ, "vpunpckhqdq", 8, 8),
    MOE_BINARY(VUNPCKLPS, "vunpcklps", 4, 4),
    MOE_BINARY(VUNPCKLPD, "vunpcklpd", 8, 8),
    MOE_BINARY(VUNPCKHPS, "vunpckhps", 4, 4),
    MOE_BINARY(VUNPCKHPD, "vunpckhpd", 8, 8),
    MOE_BINARY(VPACKSSWB, "vpacksswb", 2, 1),
    MOE_BINARY(VPACKUSWB, "vpackuswb", 2, 1),
    MOE_BINARY(VPACKSSDW, "vpackssdw", 4, 2),
    MOE_BINARY(VPACKUSDW, "vpackusdw", 4, 2),
    MOE_BINARY(VPERMILPS, "vpermilps", 4, 4),
    MOE_BINARY(VPERMILPD, "vpermilpd", 8, 8),

    MOE_ROW(VPERMILPS, Immediate, shuffle1<uint32_t>),
    MOE_ROW(VPERMILPD, Immediate, shuffle1<uint64_t>),
    MOE_ROW(VPSHUFD, Immediate, shuffle1<uint32_t>),
    MOE_ROW(VPSHUFLW, Immediate, shuffleWords<0>),
    MOE_ROW(VPSHUFHW, Immediate, shuffleWords<4>),
    MOE_ROW(VSHUFPS, Vector, shuffle2<uint32_t>),
    MOE_ROW(VSHUFPD, Vector, shuffle2<uint64_t>),
    MOE_ROW(VPALIGNR, Vector, alignGroups),
    MOE_ROW(VPSLLDQ, Immediate, shiftGroups<true>),
    MOE_ROW(VPSRLDQ, Immediate, shiftGroups<false>),
    MOE_ROW(VMOVDDUP, Vector, duplicate<uint64_t, 0>),
    MOE_ROW(VMOVSLDUP, Vector, duplicate<uint32_t, 0>),
    MOE_ROW(VMOVSHDUP, Vector, duplicate<uint32_t, 1>),

    MOE_ROW(VPERMW, Vector, permute<uint16_t>),
    MOE_ROW(VPERMD, Vector, permute<uint32_t>),
    MOE_ROW(VPERMPS, Vector, permute<uint32_t>),
    MOE_ROW(VPERMQ, Vector, permute<uint64_t>),
    MOE_ROW(VPERMPD, Vector, permute<uint64_t>),
    MOE_ROW(VPERMQ, Immediate, permuteQuarters),
    MOE_ROW(VPERMPD, Immediate, permuteQuarters),
    MOE_ROW(VPERMT2W, Vector, permuteTables<uint16_t>),
    MOE_ROW(VPERMT2D, Vector, permuteTables<uint32_t>),
    MOE_ROW(VPERMT2Q, Vector, permuteTables<uint64_t>),
    MOE_ROW(VPERMT2PS, Vector, permuteTables<uint32_t>),
    MOE_ROW(VPERMT2PD, Vector, permuteTables<uint64_t>),
    MOE_ROW(VPERMI2W, Vector, permuteIndices<uint16_t>),
    MOE_ROW(VPERMI2D, Vector, permuteIndices<uint32_t>),
    MOE_ROW(VPERMI2Q, Vector, permuteIndices<uint64_t>),
    MOE_ROW(VPERMI2PS, Vector, permuteIndices<uint32_t>),
    MOE_ROW(VPERMI2PD, Vector, permuteIndices<uint64_t>),
    MOE_ROW(VALIGND, Vector, align<uint32_t>),
    MOE_ROW(VALIGNQ, Vector, align<uint64_t>),
    MOE_ROW(VSHUFF32X4, Vector, shuffleGroups<4>),
    MOE_ROW(VSHUFI32X4, Vector, shuffleGroups<4>),
    MOE_ROW(VSHUFF64X2, Vector, shuffleGroups<8>),
    MOE_ROW(VSHUFI64X2, Vector, shuffleGroups<8>),
};
} // namespace

std::span<const VectorRow> shuffleRows() { return kRows; }

} // namespace moek::test
