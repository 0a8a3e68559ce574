#include "test/softcpu/VectorTest.h"

#include <algorithm>
#include <numeric>

namespace moek::test {

namespace {
template <class T> T saturate(int64_t value) {
  return T(std::clamp<int64_t>(value, std::numeric_limits<T>::min(),
                               std::numeric_limits<T>::max()));
}

template <class T> T shiftLeft(T value, uint64_t by) {
  return by >= 8 * sizeof(T) ? T(0) : T(value << by);
}

/// Shifts logically, or with the sign if T is signed.
template <class T> T shiftRight(T value, uint64_t by) {
  uint64_t most = 8 * sizeof(T) - 1;
  if (by > most)
    return value < 0 ? T(-1) : T(0);
  return T(value >> by);
}

template <class T> T rotate(T value, uint64_t by) {
  by %= 8 * sizeof(T);
  return by == 0 ? value : T(value << by | value >> (8 * sizeof(T) - by));
}

bool ternaryBit(unsigned table, bool a, bool b, bool c) {
  return table >> (4 * a + 2 * b + c) & 1;
}

template <class T> T ternary(unsigned table, T a, T b, T c) {
  T result = 0;
  for (size_t i = 0; i < 8 * sizeof(T); ++i)
    result |= T(ternaryBit(table, a >> i & 1, b >> i & 1, c >> i & 1)) << i;
  return result;
}

template <class A, class B>
int64_t products(const void *a, const void *b, size_t first, size_t count) {
  int64_t sum = 0;
  for (size_t i = first; i < first + count; ++i)
    sum += int64_t(elementAt<A>(a, i)) * elementAt<B>(b, i);
  return sum;
}

unsigned differences(const uint8_t *a, const uint8_t *b) {
  unsigned sum = 0;
  for (int i = 0; i < 8; ++i)
    sum += unsigned(std::abs(a[i] - b[i]));
  return sum;
}
} // namespace

// clang-format off
#define WIDTHS(X, name, signed_, expression)                                   \
  X(THREE, name "b", ALL | VEX, SAME, signed_##8_t, signed_##8_t, expression)  \
  X(THREE, name "w", ALL | VEX, SAME, signed_##16_t, signed_##16_t, expression)\
  X(THREE, name "d", ALL | VEX | TO16, SAME, signed_##32_t, signed_##32_t, expression)
#define ALL_WIDTHS(X, name, expression)                                        \
  WIDTHS(X, name, uint, expression)                                            \
  X(THREE, name "q", ALL | VEX | TO8, SAME, uint64_t, uint64_t, expression)
#define BYTES_WORDS(X, name, signed_, expression8, expression16)               \
  X(THREE, name "b", ALL | VEX, SAME, signed_##8_t, signed_##8_t, expression8) \
  X(THREE, name "w", ALL | VEX, SAME, signed_##16_t, signed_##16_t, expression16)
#define LOGIC(X, name, expression)                                             \
  X(THREE, name "d", ALL | TO16, SAME, uint32_t, uint32_t, expression)         \
  X(THREE, name "q", ALL | TO8, SAME, uint64_t, uint64_t, expression)

#define ARITHMETIC(X)                                                          \
  ALL_WIDTHS(X, "vpadd", a[i] + b[i])                                          \
  ALL_WIDTHS(X, "vpsub", a[i] - b[i])                                          \
  BYTES_WORDS(X, "vpadds", int, saturate<int8_t>(a[i] + b[i]), saturate<int16_t>(a[i] + b[i])) \
  BYTES_WORDS(X, "vpaddus", uint, saturate<uint8_t>(a[i] + b[i]), saturate<uint16_t>(a[i] + b[i])) \
  BYTES_WORDS(X, "vpsubs", int, saturate<int8_t>(a[i] - b[i]), saturate<int16_t>(a[i] - b[i])) \
  BYTES_WORDS(X, "vpsubus", uint, saturate<uint8_t>(a[i] - b[i]), saturate<uint16_t>(a[i] - b[i])) \
  BYTES_WORDS(X, "vpavg", uint, (a[i] + b[i] + 1) >> 1, (a[i] + b[i] + 1) >> 1) \
  WIDTHS(X, "vpmaxs", int, a[i] > b[i] ? a[i] : b[i])                          \
  WIDTHS(X, "vpmaxu", uint, a[i] > b[i] ? a[i] : b[i])                         \
  WIDTHS(X, "vpmins", int, a[i] < b[i] ? a[i] : b[i])                          \
  WIDTHS(X, "vpminu", uint, a[i] < b[i] ? a[i] : b[i])                         \
  X(THREE, "vpmaxsq", ALL | TO8, SAME, int64_t, int64_t, a[i] > b[i] ? a[i] : b[i]) \
  X(THREE, "vpmaxuq", ALL | TO8, SAME, uint64_t, uint64_t, a[i] > b[i] ? a[i] : b[i]) \
  X(THREE, "vpminsq", ALL | TO8, SAME, int64_t, int64_t, a[i] < b[i] ? a[i] : b[i]) \
  X(THREE, "vpminuq", ALL | TO8, SAME, uint64_t, uint64_t, a[i] < b[i] ? a[i] : b[i]) \
  X(TWO, "vpabsb", ALL | VEX, SAME, int8_t, int8_t, b[i] < 0 ? -b[i] : b[i])   \
  X(TWO, "vpabsw", ALL | VEX, SAME, int16_t, int16_t, b[i] < 0 ? -b[i] : b[i]) \
  X(TWO, "vpabsd", ALL | VEX | TO16, SAME, uint32_t, uint32_t, b[i] >> 31 ? 0 - b[i] : b[i]) \
  X(TWO, "vpabsq", ALL | TO8, SAME, uint64_t, uint64_t, b[i] >> 63 ? 0 - b[i] : b[i]) \
  X(THREE, "vpmullw", ALL | VEX, SAME, int16_t, int16_t, a[i] * b[i])          \
  X(THREE, "vpmulld", ALL | VEX | TO16, SAME, int32_t, int32_t, int64_t(a[i]) * b[i]) \
  X(THREE, "vpmullq", ALL | TO8, SAME, uint64_t, uint64_t, a[i] * b[i])        \
  X(THREE, "vpmulhw", ALL | VEX, SAME, int16_t, int16_t, (a[i] * b[i]) >> 16)  \
  X(THREE, "vpmulhuw", ALL | VEX, SAME, uint16_t, uint16_t, uint32_t(a[i]) * b[i] >> 16) \
  X(THREE, "vpmulhrsw", ALL | VEX, SAME, int16_t, int16_t, (((a[i] * b[i]) >> 14) + 1) >> 1) \
  X(THREE, "vpmuldq", ALL | VEX | TO8, SAME, int64_t, int64_t, int64_t(int32_t(a[i])) * int32_t(b[i])) \
  X(THREE, "vpmuludq", ALL | VEX | TO8, SAME, uint64_t, uint64_t, uint64_t(uint32_t(a[i])) * uint32_t(b[i])) \
  X(THREE, "vpmaddwd", ALL | VEX, SAME, int16_t, int32_t, products<int16_t, int16_t>(a, b, 2 * i, 2)) \
  X(THREE, "vpmaddubsw", ALL | VEX, SAME, uint8_t, int16_t, saturate<int16_t>(products<uint8_t, int8_t>(a, b, 2 * i, 2))) \
  X(THREE, "vpsadbw", YMM | XMM | VEX, SAME, uint8_t, uint64_t, differences(a + 8 * i, b + 8 * i)) \
  X(THREE, "vpdpbusd", ALL | TO16 | VEX | VNNI, SAME, int32_t, uint32_t, old[i] + uint64_t(products<uint8_t, int8_t>(a, b, 4 * i, 4))) \
  X(THREE, "vpdpwssd", ALL | TO16 | VEX | VNNI, SAME, int32_t, uint32_t, old[i] + uint64_t(products<int16_t, int16_t>(a, b, 2 * i, 2))) \
  X(THREE, "vpdpbusds", ALL | TO16 | VEX | VNNI, SAME, int32_t, int32_t, saturate<int32_t>(old[i] + products<uint8_t, int8_t>(a, b, 4 * i, 4))) \
  X(THREE, "vpdpwssds", ALL | TO16 | VEX | VNNI, SAME, int32_t, int32_t, saturate<int32_t>(old[i] + products<int16_t, int16_t>(a, b, 2 * i, 2)))

#define LOGIC_AND_SHIFTS(X)                                                    \
  LOGIC(X, "vpand", a[i] & b[i])                                               \
  LOGIC(X, "vpandn", ~a[i] & b[i])                                             \
  LOGIC(X, "vpor", a[i] | b[i])                                                \
  LOGIC(X, "vpxor", a[i] ^ b[i])                                               \
  X(THREE_I, "vpternlogd", ALL | TO16, SAME, uint32_t, uint32_t, ternary(imm, old[i], a[i], b[i])) \
  X(THREE_I, "vpternlogq", ALL | TO8, SAME, uint64_t, uint64_t, ternary(imm, old[i], a[i], b[i])) \
  X(THREE, "vpsllw", ALL | VEX, FROM_16, uint16_t, uint16_t, shiftLeft(a[i], elementAt<uint64_t>(b, 0))) \
  X(THREE, "vpslld", ALL | VEX, FROM_16, uint32_t, uint32_t, shiftLeft(a[i], elementAt<uint64_t>(b, 0))) \
  X(THREE, "vpsllq", ALL | VEX, FROM_16, uint64_t, uint64_t, shiftLeft(a[i], elementAt<uint64_t>(b, 0))) \
  X(THREE, "vpsrlw", ALL | VEX, FROM_16, uint16_t, uint16_t, shiftRight(a[i], elementAt<uint64_t>(b, 0))) \
  X(THREE, "vpsrld", ALL | VEX, FROM_16, uint32_t, uint32_t, shiftRight(a[i], elementAt<uint64_t>(b, 0))) \
  X(THREE, "vpsrlq", ALL | VEX, FROM_16, uint64_t, uint64_t, shiftRight(a[i], elementAt<uint64_t>(b, 0))) \
  X(THREE, "vpsraw", ALL | VEX, FROM_16, int16_t, int16_t, shiftRight(a[i], elementAt<uint64_t>(b, 0))) \
  X(THREE, "vpsrad", ALL | VEX, FROM_16, int32_t, int32_t, shiftRight(a[i], elementAt<uint64_t>(b, 0))) \
  X(THREE, "vpsraq", ALL, FROM_16, int64_t, int64_t, shiftRight(a[i], elementAt<uint64_t>(b, 0))) \
  X(TWO_I, "vpsllw", ALL | VEX, SAME, uint16_t, uint16_t, shiftLeft(b[i], imm)) \
  X(TWO_I, "vpslld", ALL | VEX | TO16, SAME, uint32_t, uint32_t, shiftLeft(b[i], imm)) \
  X(TWO_I, "vpsllq", ALL | VEX | TO8, SAME, uint64_t, uint64_t, shiftLeft(b[i], imm)) \
  X(TWO_I, "vpsrlw", ALL | VEX, SAME, uint16_t, uint16_t, shiftRight(b[i], imm)) \
  X(TWO_I, "vpsrld", ALL | VEX | TO16, SAME, uint32_t, uint32_t, shiftRight(b[i], imm)) \
  X(TWO_I, "vpsrlq", ALL | VEX | TO8, SAME, uint64_t, uint64_t, shiftRight(b[i], imm)) \
  X(TWO_I, "vpsraw", ALL | VEX, SAME, int16_t, int16_t, shiftRight(b[i], imm)) \
  X(TWO_I, "vpsrad", ALL | VEX | TO16, SAME, int32_t, int32_t, shiftRight(b[i], imm)) \
  X(TWO_I, "vpsraq", ALL | TO8, SAME, int64_t, int64_t, shiftRight(b[i], imm)) \
  X(THREE, "vpsllvw", ALL, SAME, uint16_t, uint16_t, shiftLeft(a[i], b[i]))    \
  X(THREE, "vpsllvd", ALL | VEX | TO16, SAME, uint32_t, uint32_t, shiftLeft(a[i], b[i])) \
  X(THREE, "vpsllvq", ALL | VEX | TO8, SAME, uint64_t, uint64_t, shiftLeft(a[i], b[i])) \
  X(THREE, "vpsrlvw", ALL, SAME, uint16_t, uint16_t, shiftRight(a[i], b[i]))   \
  X(THREE, "vpsrlvd", ALL | VEX | TO16, SAME, uint32_t, uint32_t, shiftRight(a[i], b[i])) \
  X(THREE, "vpsrlvq", ALL | VEX | TO8, SAME, uint64_t, uint64_t, shiftRight(a[i], b[i])) \
  X(THREE, "vpsravw", ALL, SAME, int16_t, int16_t, shiftRight(a[i], uint16_t(b[i]))) \
  X(THREE, "vpsravd", ALL | VEX | TO16, SAME, int32_t, int32_t, shiftRight(a[i], uint32_t(b[i]))) \
  X(THREE, "vpsravq", ALL | TO8, SAME, int64_t, int64_t, shiftRight(a[i], uint64_t(b[i]))) \
  X(THREE, "vprolvd", ALL | TO16, SAME, uint32_t, uint32_t, rotate(a[i], b[i])) \
  X(THREE, "vprolvq", ALL | TO8, SAME, uint64_t, uint64_t, rotate(a[i], b[i])) \
  X(THREE, "vprorvd", ALL | TO16, SAME, uint32_t, uint32_t, rotate(a[i], 0 - b[i])) \
  X(THREE, "vprorvq", ALL | TO8, SAME, uint64_t, uint64_t, rotate(a[i], 0 - b[i])) \
  X(TWO_I, "vprold", ALL | TO16, SAME, uint32_t, uint32_t, rotate(b[i], imm))  \
  X(TWO_I, "vprolq", ALL | TO8, SAME, uint64_t, uint64_t, rotate(b[i], imm))   \
  X(TWO_I, "vprord", ALL | TO16, SAME, uint32_t, uint32_t, rotate(b[i], 256 - imm)) \
  X(TWO_I, "vprorq", ALL | TO8, SAME, uint64_t, uint64_t, rotate(b[i], 256 - imm))
// clang-format on

MOE_VECTOR_CASES(IntegerArithmetic, ARITHMETIC);
MOE_VECTOR_CASES(IntegerLogicAndShifts, LOGIC_AND_SHIFTS);

} // namespace moek::test
