#include "test/softcpu/VectorTest.h"

namespace moek::test {

// clang-format off
#define FLOAT_MOVE(X, name, type)                                              \
  X(TWO, name, ALL | VEX, SAME, type, type, b[i])
#define INTEGER_MOVE(X, name, type) X(TWO, name, ALL, SAME, type, type, b[i])
#define BLENDS(X, letter, forms, type)                                         \
  X(THREE, letter, ALL | BLEND | forms, SAME, type, type, b[i])

#define MOVES(X)                                                               \
  FLOAT_MOVE(X, "vmovups", uint32_t)                                           \
  FLOAT_MOVE(X, "vmovupd", uint64_t)                                           \
  FLOAT_MOVE(X, "vmovaps", uint32_t)                                           \
  FLOAT_MOVE(X, "vmovapd", uint64_t)                                           \
  INTEGER_MOVE(X, "vmovdqu8", uint8_t)                                         \
  INTEGER_MOVE(X, "vmovdqu16", uint16_t)                                       \
  INTEGER_MOVE(X, "vmovdqu32", uint32_t)                                       \
  INTEGER_MOVE(X, "vmovdqu64", uint64_t)                                       \
  INTEGER_MOVE(X, "vmovdqa32", uint32_t)                                       \
  INTEGER_MOVE(X, "vmovdqa64", uint64_t)                                       \
  X(TWO, "vmovntdqa", MEMORY, SAME, uint64_t, uint64_t, b[i])                  \
  BLENDS(X, "vpblendmb", 0, uint8_t)                                           \
  BLENDS(X, "vpblendmw", 0, uint16_t)                                          \
  BLENDS(X, "vpblendmd", TO16, uint32_t)                                       \
  BLENDS(X, "vpblendmq", TO8, uint64_t)                                        \
  BLENDS(X, "vblendmps", TO16, uint32_t)                                       \
  BLENDS(X, "vblendmpd", TO8, uint64_t)

// Broadcasts of several elements have no register form.
#define BROADCASTS(X)                                                          \
  X(TWO, "vpbroadcastb", ALL | VEX, FROM_1, uint8_t, uint8_t, b[0])            \
  X(TWO, "vpbroadcastw", ALL | VEX, FROM_2, uint16_t, uint16_t, b[0])          \
  X(TWO, "vpbroadcastd", ALL | VEX, FROM_4, uint32_t, uint32_t, b[0])          \
  X(TWO, "vpbroadcastq", ALL | VEX, FROM_8, uint64_t, uint64_t, b[0])          \
  X(TWO, "vbroadcastss", ALL | VEX, FROM_4, uint32_t, uint32_t, b[0])          \
  X(TWO, "vbroadcastsd", MASKED | YMM | VEX, FROM_8, uint64_t, uint64_t, b[0]) \
  X(TWO, "vbroadcastf32x2", MASKED | YMM, FROM_8, uint32_t, uint32_t, b[i % 2]) \
  X(TWO, "vbroadcasti32x2", ALL, FROM_8, uint32_t, uint32_t, b[i % 2])         \
  X(TWO, "vbroadcastf32x4", MASKED | MEMORY, FROM_16, uint32_t, uint32_t, b[i % 4]) \
  X(TWO, "vbroadcasti32x4", MASKED | MEMORY, FROM_16, uint32_t, uint32_t, b[i % 4]) \
  X(TWO, "vbroadcastf64x2", MASKED | MEMORY, FROM_16, uint64_t, uint64_t, b[i % 2]) \
  X(TWO, "vbroadcasti64x2", MASKED | MEMORY, FROM_16, uint64_t, uint64_t, b[i % 2]) \
  X(TWO, "vbroadcastf32x8", MASKED | MEMORY, FROM_32, uint32_t, uint32_t, b[i % 8]) \
  X(TWO, "vbroadcasti32x8", MASKED | MEMORY, FROM_32, uint32_t, uint32_t, b[i % 8]) \
  X(TWO, "vbroadcastf64x4", MASKED | MEMORY, FROM_32, uint64_t, uint64_t, b[i % 4]) \
  X(TWO, "vbroadcasti64x4", MASKED | MEMORY, FROM_32, uint64_t, uint64_t, b[i % 4])

// Part number imm modulo the number of parts.
#define PARTS_OF(X, letters, forms, bytes, type)                               \
  X(TWO_I, "vextract" letters, MASKED | REGISTER | forms, TO_##bytes, type, type, b[imm % (length / bytes) * n + i]) \
  X(THREE_I, "vinsert" letters, MASKED | forms, FROM_##bytes, type, type, i / (bytes / sizeof(type)) == imm % (length / bytes) ? b[i % (bytes / sizeof(type))] : a[i])

#define PARTS(X)                                                               \
  PARTS_OF(X, "f32x4", YMM, 16, uint32_t)                                      \
  PARTS_OF(X, "i32x4", YMM, 16, uint32_t)                                      \
  PARTS_OF(X, "f64x2", YMM, 16, uint64_t)                                      \
  PARTS_OF(X, "i64x2", YMM, 16, uint64_t)                                      \
  PARTS_OF(X, "f32x8", 0, 32, uint32_t)                                        \
  PARTS_OF(X, "i32x8", 0, 32, uint32_t)                                        \
  PARTS_OF(X, "f64x4", 0, 32, uint64_t)                                        \
  PARTS_OF(X, "i64x4", 0, 32, uint64_t)
// clang-format on

MOE_VECTOR_CASES(Move, MOVES);
MOE_VECTOR_CASES(Broadcast, BROADCASTS);
MOE_VECTOR_CASES(Part, PARTS);

} // namespace moek::test
