#include "test/softcpu/VectorTest.h"

#include <algorithm>

namespace moek::test {

namespace {
/// Selects from two sources.
template <class T> T of(bool first, const T *a, const T *b, size_t i) {
  return first ? a[i] : b[i];
}

// Numbers within 16 bytes: first element of the group, and place in it.
template <class T> size_t group(size_t i) {
  constexpr size_t kCount = 16 / sizeof(T);
  return i / kCount * kCount;
}
template <class T> size_t within(size_t i) { return i % (16 / sizeof(T)); }

/// Alternates elements of both sources from the first or the second half of
/// each group.
template <class T> T unpack(const T *a, const T *b, size_t i, bool high) {
  size_t half = 8 / sizeof(T);
  size_t from = group<T>(i) + within<T>(i) / 2 + (high ? half : 0);
  return i % 2 ? b[from] : a[from];
}

/// Packs elements of both sources into each group.
template <class To, class From>
To pack(const From *a, const From *b, size_t i) {
  size_t half = 8 / sizeof(To), at = within<To>(i);
  From value = of(at < half, a, b, group<To>(i) / 2 + at % half);
  return To(std::clamp<int64_t>(value, std::numeric_limits<To>::min(),
                                std::numeric_limits<To>::max()));
}

/// Returns an immediate's two bits that select one of four.
size_t pick(unsigned immediate, size_t i) {
  return immediate >> 2 * (i % 4) & 3;
}

uint8_t alignedByte(const uint8_t *a, const uint8_t *b, size_t i, unsigned by) {
  size_t from = i % 16 + by, first = i / 16 * 16;
  return from < 16 ? b[first + from] : from < 32 ? a[first + from - 16] : 0;
}

/// Selects from one of two tables; the bit above the number selects the table.
template <class T>
T ofTables(T number, const T *first, const T *second, size_t count) {
  size_t at = size_t(number) % count;
  return size_t(number) & count ? second[at] : first[at];
}

/// Selects groups of 16 bytes, the lower half from the first source: by two
/// bits if there are four, else by one bit.
template <class T>
T ofGroups(const T *a, const T *b, size_t i, size_t n, unsigned immediate) {
  size_t perGroup = 16 / sizeof(T), groups = n / perGroup, at = i / perGroup;
  unsigned chosen = groups == 4 ? immediate >> 2 * at & 3 : immediate >> at & 1;
  return of(at < groups / 2, a, b, chosen * perGroup + i % perGroup);
}
} // namespace

// clang-format off
#define UNPACK(X, letter, high)                                                \
  X(THREE, "vpunpck" letter "bw", ALL | VEX, SAME, uint8_t, uint8_t, unpack(a, b, i, high)) \
  X(THREE, "vpunpck" letter "wd", ALL | VEX, SAME, uint16_t, uint16_t, unpack(a, b, i, high)) \
  X(THREE, "vpunpck" letter "dq", ALL | VEX | TO16, SAME, uint32_t, uint32_t, unpack(a, b, i, high)) \
  X(THREE, "vpunpck" letter "qdq", ALL | VEX | TO8, SAME, uint64_t, uint64_t, unpack(a, b, i, high)) \
  X(THREE, "vunpck" letter "ps", ALL | VEX | TO16, SAME, uint32_t, uint32_t, unpack(a, b, i, high)) \
  X(THREE, "vunpck" letter "pd", ALL | VEX | TO8, SAME, uint64_t, uint64_t, unpack(a, b, i, high))

#define WITHIN_GROUPS(X)                                                       \
  UNPACK(X, "l", false)                                                        \
  UNPACK(X, "h", true)                                                         \
  X(THREE, "vpacksswb", ALL | VEX, SAME, int16_t, int8_t, pack<int8_t>(a, b, i)) \
  X(THREE, "vpackuswb", ALL | VEX, SAME, int16_t, uint8_t, pack<uint8_t>(a, b, i)) \
  X(THREE, "vpackssdw", ALL | VEX | TO16, SAME, int32_t, int16_t, pack<int16_t>(a, b, i)) \
  X(THREE, "vpackusdw", ALL | VEX | TO16, SAME, int32_t, uint16_t, pack<uint16_t>(a, b, i)) \
  X(THREE, "vpshufb", ALL | VEX, SAME, uint8_t, uint8_t, b[i] & 128 ? 0 : a[group<uint8_t>(i) + b[i] % 16]) \
  X(THREE, "vpermilps", ALL | VEX | TO16, SAME, uint32_t, uint32_t, a[group<uint32_t>(i) + b[i] % 4]) \
  X(THREE, "vpermilpd", ALL | VEX | TO8, SAME, uint64_t, uint64_t, a[group<uint64_t>(i) + (b[i] >> 1 & 1)]) \
  X(TWO_I, "vpermilps", ALL | VEX | TO16, SAME, uint32_t, uint32_t, b[group<uint32_t>(i) + pick(imm, i)]) \
  X(TWO_I, "vpermilpd", ALL | VEX | TO8, SAME, uint64_t, uint64_t, b[group<uint64_t>(i) + (imm >> i & 1)]) \
  X(TWO_I, "vpshufd", ALL | VEX | TO16, SAME, uint32_t, uint32_t, b[group<uint32_t>(i) + pick(imm, i)]) \
  X(TWO_I, "vpshuflw", ALL | VEX, SAME, uint16_t, uint16_t, i % 8 < 4 ? b[i / 8 * 8 + pick(imm, i)] : b[i]) \
  X(TWO_I, "vpshufhw", ALL | VEX, SAME, uint16_t, uint16_t, i % 8 < 4 ? b[i] : b[i / 8 * 8 + 4 + pick(imm, i)]) \
  X(THREE_I, "vshufps", ALL | VEX | TO16, SAME, uint32_t, uint32_t, of(i % 4 < 2, a, b, group<uint32_t>(i) + pick(imm, i))) \
  X(THREE_I, "vshufpd", ALL | VEX | TO8, SAME, uint64_t, uint64_t, of(i % 2 < 1, a, b, group<uint64_t>(i) + (imm >> i & 1))) \
  X(THREE_I, "vpalignr", ALL | VEX, SAME, uint8_t, uint8_t, alignedByte(a, b, i, imm)) \
  X(TWO_I, "vpslldq", YMM | XMM | VEX, SAME, uint8_t, uint8_t, i % 16 >= imm ? b[i - imm] : 0) \
  X(TWO_I, "vpsrldq", YMM | XMM | VEX, SAME, uint8_t, uint8_t, i % 16 + imm < 16 ? b[i + imm] : 0) \
  X(TWO, "vmovsldup", ALL | VEX, SAME, uint32_t, uint32_t, b[i - i % 2])       \
  X(TWO, "vmovshdup", ALL | VEX, SAME, uint32_t, uint32_t, b[i - i % 2 + 1])   \
  X(TWO, "vmovddup", MASKED | YMM, SAME, uint64_t, uint64_t, b[i - i % 2])

#define TABLES(X, letter, forms, type)                                         \
  X(THREE, "vpermt2" letter, ALL | forms, SAME, type, type, ofTables(a[i], old, b, n)) \
  X(THREE, "vpermi2" letter, ALL | forms, SAME, type, type, ofTables(old[i], a, b, n))
#define GROUPS(X, letters, forms, type)                                        \
  X(THREE_I, "vshuf" letters, MASKED | YMM | forms, SAME, type, type, ofGroups(a, b, i, n, imm))

#define ACROSS_GROUPS(X)                                                       \
  X(THREE, "vpermw", ALL, SAME, uint16_t, uint16_t, b[a[i] % n])               \
  X(THREE, "vpermd", MASKED | YMM | TO16, SAME, uint32_t, uint32_t, b[a[i] % n]) \
  X(THREE, "vpermps", MASKED | YMM | TO16, SAME, uint32_t, uint32_t, b[a[i] % n]) \
  X(THREE, "vpermq", MASKED | YMM | TO8, SAME, uint64_t, uint64_t, b[a[i] % n]) \
  X(THREE, "vpermpd", MASKED | YMM | TO8, SAME, uint64_t, uint64_t, b[a[i] % n]) \
  X(TWO_I, "vpermq", MASKED | YMM | VEX | TO8, SAME, uint64_t, uint64_t, b[i / 4 * 4 + pick(imm, i)]) \
  X(TWO_I, "vpermpd", MASKED | YMM | VEX | TO8, SAME, uint64_t, uint64_t, b[i / 4 * 4 + pick(imm, i)]) \
  TABLES(X, "w", 0, uint16_t)                                                  \
  TABLES(X, "d", TO16, uint32_t)                                               \
  TABLES(X, "q", TO8, uint64_t)                                                \
  TABLES(X, "ps", TO16, uint32_t)                                              \
  TABLES(X, "pd", TO8, uint64_t)                                               \
  X(THREE_I, "valignd", ALL | TO16, SAME, uint32_t, uint32_t, i + imm % n < n ? b[i + imm % n] : a[i + imm % n - n]) \
  X(THREE_I, "valignq", ALL | TO8, SAME, uint64_t, uint64_t, i + imm % n < n ? b[i + imm % n] : a[i + imm % n - n]) \
  GROUPS(X, "f32x4", TO16, uint32_t)                                           \
  GROUPS(X, "i32x4", TO16, uint32_t)                                           \
  GROUPS(X, "f64x2", TO8, uint64_t)                                            \
  GROUPS(X, "i64x2", TO8, uint64_t)
// clang-format on

MOE_VECTOR_CASES(ShuffleWithinGroups, WITHIN_GROUPS);
MOE_VECTOR_CASES(ShuffleAcrossGroups, ACROSS_GROUPS);

} // namespace moek::test
