#include "test/softcpu/VectorEffectTest.h"

#include <cmath>
#include <limits>

namespace moek::test {

namespace {
//===----------------------------------------------------------------------===//
// One element
//===----------------------------------------------------------------------===//

/// Sets element `i` of 16 bytes; everything else is from another vector.
template <class T>
void setIn(const Effect &e, int to, int rest, size_t i, T value) {
  e.r.vector[to] = e.r.vector[rest];
  e.set<T>(to, i, value);
  e.clear(to, 16);
}

template <class T> void setAlone(const Effect &e, int to, T value) {
  e.clear(to, 0);
  e.set<T>(to, 0, value);
}

/// Sets xmm1 to zmm2 with another lowest element, which is masked by k1.
template <class T> void setLowest(const Effect &e, T value, bool zeroing) {
  T old = e.get<T>(1, 0);
  setIn<T>(e, 1, 2, 0, e.masked(1, 0) ? value : zeroing ? T(0) : old);
}

template <class T, class From> T rounded(From value, double (*round)(double)) {
  double whole = round(double(value));
  // As a double, 2^63 is one past the largest number.
  constexpr auto kMost = double(std::numeric_limits<T>::max());
  bool fits = whole >= double(std::numeric_limits<T>::min()) &&
              (sizeof(T) == 8 ? whole < kMost : whole <= kMost);
  return fits                                ? T(whole)
         : std::numeric_limits<T>::is_signed ? std::numeric_limits<T>::min()
                                             : std::numeric_limits<T>::max();
}

double nearest(double value) { return std::nearbyint(value); }
double down(double value) { return std::floor(value); }
double up(double value) { return std::ceil(value); }
double truncated(double value) { return std::trunc(value); }

template <class T> void compareToFlags(const Effect &e, T a, T b) {
  bool unordered = std::isnan(a) || std::isnan(b);
  e.flags(unordered || a == b, unordered, unordered || a < b);
}

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

enum Masking { kMerge, kZero };

template <class T>
void broadcastGeneral(const Effect &e, size_t bytes, int mask,
                      Masking masking) {
  for (size_t i = 0; i < bytes / sizeof(T); ++i)
    if (mask == 0 || e.masked(mask, i))
      e.set<T>(1, i, T(e.r.general[3]));
    else if (masking == kZero)
      e.set<T>(1, i, T(0));
  e.clear(1, bytes);
}

/// Stores bytes of zmm3 from byte `first` on, where the mask allows.
template <class T>
void store(const Effect &e, size_t first, size_t bytes, int mask,
           size_t from = 0) {
  for (size_t i = 0; i < bytes / sizeof(T); ++i)
    if (mask == 0 || e.masked(mask, i)) {
      T value = e.get<T>(3, from + i);
      std::memcpy(e.memory.bytes + first + i * sizeof(T), &value, sizeof(T));
    }
}

template <class From, class To> To truncate(From value) { return To(value); }

template <class From, class To> To saturate(From value) {
  constexpr From kLeast = std::numeric_limits<To>::min();
  constexpr From kMost = std::numeric_limits<To>::max();
  return To(value < kLeast ? kLeast : value > kMost ? kMost : value);
}

/// Stores elements of zmm3, narrowed by `op`.
template <class From, class To, auto op = truncate<From, To>>
void storeNarrow(const Effect &e, size_t first, size_t count, int mask) {
  for (size_t i = 0; i < count; ++i)
    if (mask == 0 || e.masked(mask, i)) {
      To value = op(e.get<From>(3, i));
      std::memcpy(e.memory.bytes + first + i * sizeof(To), &value, sizeof(To));
    }
}

template <class T>
void load(const Effect &e, size_t first, size_t bytes, int mask,
          Masking masking) {
  for (size_t i = 0; i < bytes / sizeof(T); ++i)
    if (e.masked(mask, i))
      e.set<T>(1, i, elementAt<T>(e.memory.bytes + first, i));
    else if (masking == kZero)
      e.set<T>(1, i, T(0));
  e.clear(1, bytes);
}

template <class T>
void compress(const Effect &e, size_t bytes, Masking masking) {
  size_t next = 0, count = bytes / sizeof(T);
  for (size_t i = 0; i < count; ++i)
    if (e.masked(1, i))
      e.set<T>(1, next++, e.get<T>(3, i));
  for (; next < count; ++next)
    if (masking == kZero)
      e.set<T>(1, next, T(0));
  e.clear(1, bytes);
}

template <class T>
void compressToMemory(const Effect &e, size_t first, int mask) {
  for (size_t i = 0, next = first / sizeof(T); i < 64 / sizeof(T); ++i)
    if (e.masked(mask, i))
      e.stored<T>(next++, e.get<T>(3, i));
}

template <class T>
void expand(const Effect &e, const void *from, size_t bytes, int mask,
            Masking masking) {
  size_t next = 0;
  for (size_t i = 0; i < bytes / sizeof(T); ++i)
    if (e.masked(mask, i))
      e.set<T>(1, i, elementAt<T>(from, next++));
    else if (masking == kZero)
      e.set<T>(1, i, T(0));
  e.clear(1, bytes);
}
} // namespace

// clang-format off
#define ELEMENTS(X)                                                            \
  X("{evex} vmovd %ebx, %xmm17", setAlone<uint32_t>(e, 17, uint32_t(e.r.general[3]))) \
  X("{evex} vmovq %rbx, %xmm17", setAlone<uint64_t>(e, 17, e.r.general[3]))    \
  X("{evex} vmovd %xmm17, %ecx", e.r.general[1] = e.get<uint32_t>(17, 0))      \
  X("{evex} vmovq %xmm17, %rcx", e.r.general[1] = e.get<uint64_t>(17, 0))      \
  X("{evex} vmovd 60(%rax), %xmm17", setAlone<uint32_t>(e, 17, e.loaded<uint32_t>(15))) \
  X("{evex} vmovq 56(%rax), %xmm17", setAlone<uint64_t>(e, 17, e.loaded<uint64_t>(7))) \
  X("{evex} vmovd %xmm17, 4(%rax)", e.stored<uint32_t>(1, e.get<uint32_t>(17, 0))) \
  X("{evex} vmovq %xmm17, 8(%rax)", e.stored<uint64_t>(1, e.get<uint64_t>(17, 0))) \
  X("{evex} vmovq %xmm17, %xmm18", setAlone<uint64_t>(e, 18, e.get<uint64_t>(17, 0))) \
  X("{evex} vpinsrb $21, %ebx, %xmm2, %xmm1", setIn<uint8_t>(e, 1, 2, 5, uint8_t(e.r.general[3]))) \
  X("{evex} vpinsrw $5, %ebx, %xmm2, %xmm1", setIn<uint16_t>(e, 1, 2, 5, uint16_t(e.r.general[3]))) \
  X("{evex} vpinsrd $3, %ebx, %xmm2, %xmm1", setIn<uint32_t>(e, 1, 2, 3, uint32_t(e.r.general[3]))) \
  X("{evex} vpinsrq $1, %rbx, %xmm1, %xmm1", setIn<uint64_t>(e, 1, 1, 1, e.r.general[3])) \
  X("{evex} vpinsrb $6, 63(%rax), %xmm2, %xmm1", setIn<uint8_t>(e, 1, 2, 6, e.loaded<uint8_t>(63))) \
  X("{evex} vpinsrw $6, 62(%rax), %xmm2, %xmm1", setIn<uint16_t>(e, 1, 2, 6, e.loaded<uint16_t>(31))) \
  X("{evex} vpinsrd $2, 60(%rax), %xmm2, %xmm1", setIn<uint32_t>(e, 1, 2, 2, e.loaded<uint32_t>(15))) \
  X("{evex} vpinsrq $0, 56(%rax), %xmm2, %xmm1", setIn<uint64_t>(e, 1, 2, 0, e.loaded<uint64_t>(7))) \
  X("{evex} vpextrb $13, %xmm2, %ecx", e.r.general[1] = e.get<uint8_t>(2, 13)) \
  X("{evex} vpextrw $7, %xmm2, %ecx", e.r.general[1] = e.get<uint16_t>(2, 7))  \
  X("{evex} vpextrd $2, %xmm2, %ecx", e.r.general[1] = e.get<uint32_t>(2, 2))  \
  X("{evex} vpextrq $1, %xmm2, %rcx", e.r.general[1] = e.get<uint64_t>(2, 1))  \
  X("{evex} vextractps $3, %xmm2, %ecx", e.r.general[1] = e.get<uint32_t>(2, 3)) \
  X("{evex} vpextrb $13, %xmm2, 3(%rax)", e.stored<uint8_t>(3, e.get<uint8_t>(2, 13))) \
  X("{evex} vpextrw $7, %xmm2, 6(%rax)", e.stored<uint16_t>(3, e.get<uint16_t>(2, 7))) \
  X("{evex} vpextrd $2, %xmm2, 60(%rax)", e.stored<uint32_t>(15, e.get<uint32_t>(2, 2))) \
  X("{evex} vpextrq $1, %xmm2, 56(%rax)", e.stored<uint64_t>(7, e.get<uint64_t>(2, 1))) \
  X("{evex} vextractps $1, %xmm2, 60(%rax)", e.stored<uint32_t>(15, e.get<uint32_t>(2, 1))) \
  X("{evex} vinsertps $0xb2, %xmm3, %xmm2, %xmm1", setIn<uint32_t>(e, 1, 2, 3, e.get<uint32_t>(3, 2)); e.set<uint32_t>(1, 1, 0)) \
  X("{evex} vinsertps $0xd0, 60(%rax), %xmm2, %xmm1", setIn<uint32_t>(e, 1, 2, 1, e.loaded<uint32_t>(15))) \
  X("{evex} vmovss %xmm3, %xmm2, %xmm1{%k1}", setLowest<uint32_t>(e, e.get<uint32_t>(3, 0), false)) \
  X("{evex} vmovsd %xmm3, %xmm2, %xmm1{%k1}{z}", setLowest<uint64_t>(e, e.get<uint64_t>(3, 0), true)) \
  X("{evex} vmovss 60(%rax), %xmm1", setAlone<uint32_t>(e, 1, e.loaded<uint32_t>(15))) \
  X("{evex} vmovsd 56(%rax), %xmm1", setAlone<uint64_t>(e, 1, e.loaded<uint64_t>(7))) \
  X("{evex} vmovss 64(%rax), %xmm1{%k4}{z}", setAlone<uint32_t>(e, 1, 0))      \
  X("{evex} vmovsd 64(%rax), %xmm1{%k4}", setAlone<uint64_t>(e, 1, e.get<uint64_t>(1, 0))) \
  X("{evex} vmovss %xmm3, 60(%rax)", store<uint32_t>(e, 60, 4, 0))             \
  X("{evex} vmovsd %xmm3, 56(%rax)", store<uint64_t>(e, 56, 8, 0))             \
  X("{evex} vmovss %xmm3, 60(%rax){%k1}", store<uint32_t>(e, 60, 4, 1))        \
  X("{evex} vmovsd %xmm3, 64(%rax){%k4}", )                                    \
  X("{evex} vmovlps 56(%rax), %xmm2, %xmm1", setIn<uint64_t>(e, 1, 2, 0, e.loaded<uint64_t>(7))) \
  X("{evex} vmovhps 56(%rax), %xmm2, %xmm1", setIn<uint64_t>(e, 1, 2, 1, e.loaded<uint64_t>(7))) \
  X("{evex} vmovlpd 56(%rax), %xmm2, %xmm1", setIn<uint64_t>(e, 1, 2, 0, e.loaded<uint64_t>(7))) \
  X("{evex} vmovhpd 56(%rax), %xmm2, %xmm1", setIn<uint64_t>(e, 1, 2, 1, e.loaded<uint64_t>(7))) \
  X("{evex} vmovhlps %xmm3, %xmm2, %xmm1", setIn<uint64_t>(e, 1, 2, 0, e.get<uint64_t>(3, 1))) \
  X("{evex} vmovlhps %xmm3, %xmm2, %xmm1", setIn<uint64_t>(e, 1, 2, 1, e.get<uint64_t>(3, 0))) \
  X("{evex} vmovlps %xmm3, 56(%rax)", e.stored<uint64_t>(7, e.get<uint64_t>(3, 0))) \
  X("{evex} vmovhps %xmm3, 56(%rax)", e.stored<uint64_t>(7, e.get<uint64_t>(3, 1))) \
  X("{evex} vmovlpd %xmm3, 56(%rax)", e.stored<uint64_t>(7, e.get<uint64_t>(3, 0))) \
  X("{evex} vmovhpd %xmm3, 56(%rax)", e.stored<uint64_t>(7, e.get<uint64_t>(3, 1))) \
  X("{evex} vmovddup %xmm3, %xmm1", uint64_t low = e.get<uint64_t>(3, 0); setAlone(e, 1, low); e.set(1, 1, low)) \
  X("{evex} vmovddup 56(%rax), %xmm1", setAlone(e, 1, e.loaded<uint64_t>(7)); e.set(1, 1, e.loaded<uint64_t>(7)))

#define FROM_INTEGER(X, name, letter, from, reg)                               \
  X("{evex} vcvt" name "2ss" letter " %" reg ", %xmm2, %xmm1", setIn<float>(e, 1, 2, 0, float(from(e.r.general[3])))) \
  X("{evex} vcvt" name "2sd" letter " %" reg ", %xmm2, %xmm1", setIn<double>(e, 1, 2, 0, double(from(e.r.general[3])))) \
  X("{evex} vcvt" name "2ss" letter " 56(%rax), %xmm2, %xmm1", setIn<float>(e, 1, 2, 0, float(elementAt<from>(e.memory.bytes + 56, 0)))) \
  X("{evex} vcvt" name "2sd" letter " 56(%rax), %xmm2, %xmm1", setIn<double>(e, 1, 2, 0, double(elementAt<from>(e.memory.bytes + 56, 0))))
#define TO_INTEGER(X, name, to, reg)                                           \
  X("{evex} vcvtss2" name " %xmm3, %" reg, e.r.general[2] = std::make_unsigned_t<to>(rounded<to>(e.get<float>(3, 0), nearest))) \
  X("{evex} vcvtsd2" name " %xmm3, %" reg, e.r.general[2] = std::make_unsigned_t<to>(rounded<to>(e.get<double>(3, 0), nearest))) \
  X("{evex} vcvttss2" name " 60(%rax), %" reg, e.r.general[2] = std::make_unsigned_t<to>(rounded<to>(e.loaded<float>(15), truncated))) \
  X("{evex} vcvttsd2" name " 56(%rax), %" reg, e.r.general[2] = std::make_unsigned_t<to>(rounded<to>(e.loaded<double>(7), truncated))) \
  X("{evex} vcvtss2" name " {ru-sae}, %xmm3, %" reg, e.r.general[2] = std::make_unsigned_t<to>(rounded<to>(e.get<float>(3, 0), up))) \
  X("{evex} vcvtsd2" name " {rd-sae}, %xmm3, %" reg, e.r.general[2] = std::make_unsigned_t<to>(rounded<to>(e.get<double>(3, 0), down)))

#define SCALARS(X)                                                             \
  FROM_INTEGER(X, "si", "l", int32_t, "ebx")                          \
  FROM_INTEGER(X, "si", "q", int64_t, "rbx")                          \
  FROM_INTEGER(X, "usi", "l", uint32_t, "ebx")                       \
  FROM_INTEGER(X, "usi", "q", uint64_t, "rbx")                       \
  TO_INTEGER(X, "si", int32_t, "edx")                                          \
  TO_INTEGER(X, "si", int64_t, "rdx")                                          \
  TO_INTEGER(X, "usi", uint32_t, "edx")                                        \
  TO_INTEGER(X, "usi", uint64_t, "rdx")                                        \
  X("{evex} vcomiss %xmm3, %xmm2", compareToFlags(e, e.get<float>(2, 0), e.get<float>(3, 0))) \
  X("{evex} vcomisd %xmm3, %xmm2", compareToFlags(e, e.get<double>(2, 0), e.get<double>(3, 0))) \
  X("{evex} vucomiss 60(%rax), %xmm2", compareToFlags(e, e.get<float>(2, 0), e.loaded<float>(15))) \
  X("{evex} vucomisd %xmm2, %xmm2", compareToFlags(e, e.get<double>(2, 0), e.get<double>(2, 0)))

#define GENERAL_BROADCASTS(X, letter, reg, type)                               \
  X("vpbroadcast" letter " %" reg ", %zmm1", broadcastGeneral<type>(e, 64, 0, kMerge)) \
  X("vpbroadcast" letter " %" reg ", %zmm1{%k1}", broadcastGeneral<type>(e, 64, 1, kMerge)) \
  X("vpbroadcast" letter " %" reg ", %ymm1{%k1}{z}", broadcastGeneral<type>(e, 32, 1, kZero))
// k5, k6 and k7 are zero for elements past the end of memory.
#define STORES(X, name, type)                                                  \
  X(name " %zmm3, (%rax)", store<type>(e, 0, 64, 0))                           \
  X("{evex} " name " %ymm3, 32(%rax)", store<type>(e, 32, 32, 0))             \
  X(name " %xmm3, (%rax){%k1}", store<type>(e, 0, 16, 1))                      \
  X(name " %zmm3, (%rax){%k1}", store<type>(e, 0, 64, 1))
#define TAILS(X, name, type, mask)                                             \
  X(name " %zmm3, 8(%rax){%k" #mask "}", store<type>(e, 8, 64, mask))          \
  X(name " 8(%rax), %zmm1{%k" #mask "}", load<type>(e, 8, 64, mask, kMerge))   \
  X(name " 8(%rax), %zmm1{%k" #mask "}{z}", load<type>(e, 8, 64, mask, kZero)) \
  X(name " 64(%rax), %ymm1{%k4}{z}", e.clear(1, 0))
#define EXTRACTS(X, letters, type, bytes)                                      \
  X("vextract" letters " $1, %zmm3, (%rax)", store<type>(e, 0, bytes, 0, bytes / sizeof(type))) \
  X("vextract" letters " $1, %zmm3, (%rax){%k1}", store<type>(e, 0, bytes, 1, bytes / sizeof(type)))
#define NARROWS(X, letters, from, to)                                          \
  X("vpmov" letters " %zmm3, (%rax)", storeNarrow<u##from, u##to>(e, 0, 64 / sizeof(from), 0)) \
  X("vpmov" letters " %xmm3, (%rax)", storeNarrow<u##from, u##to>(e, 0, 16 / sizeof(from), 0)) \
  X("vpmov" letters " %ymm3, 1(%rax){%k1}", storeNarrow<u##from, u##to>(e, 1, 32 / sizeof(from), 1)) \
  X("vpmovs" letters " %zmm3, (%rax){%k1}", storeNarrow<from, to, saturate<from, to>>(e, 0, 64 / sizeof(from), 1)) \
  X("vpmovus" letters " %zmm3, (%rax)", storeNarrow<u##from, u##to, saturate<u##from, u##to>>(e, 0, 64 / sizeof(from), 0))
#define COMPRESSES(X, letters, infix, type, mask)                              \
  X("v" infix "compress" letters " %zmm3, %zmm1{%k1}", compress<type>(e, 64, kMerge)) \
  X("v" infix "compress" letters " %ymm3, %ymm1{%k1}{z}", compress<type>(e, 32, kZero)) \
  X("v" infix "compress" letters " %zmm3, 8(%rax){%k" #mask "}", compressToMemory<type>(e, 8, mask)) \
  X("v" infix "expand" letters " %zmm3, %zmm1{%k1}", expand<type>(e, &e.r.vector[3], 64, 1, kMerge)) \
  X("v" infix "expand" letters " %xmm3, %xmm1{%k1}{z}", expand<type>(e, &e.r.vector[3], 16, 1, kZero)) \
  X("v" infix "expand" letters " 8(%rax), %zmm1{%k" #mask "}{z}", expand<type>(e, e.memory.bytes + 8, 64, mask, kZero))

#define VECTORS(X)                                                             \
  GENERAL_BROADCASTS(X, "b", "ebx", uint8_t)                                   \
  GENERAL_BROADCASTS(X, "w", "ebx", uint16_t)                                  \
  GENERAL_BROADCASTS(X, "d", "ebx", uint32_t)                                  \
  GENERAL_BROADCASTS(X, "q", "rbx", uint64_t)                                  \
  STORES(X, "vmovdqu8", uint8_t)                                               \
  STORES(X, "vmovdqu16", uint16_t)                                             \
  STORES(X, "vmovdqu32", uint32_t)                                             \
  STORES(X, "vmovdqu64", uint64_t)                                             \
  STORES(X, "vmovups", uint32_t)                                               \
  STORES(X, "vmovupd", uint64_t)                                               \
  STORES(X, "vmovaps", uint32_t)                                               \
  STORES(X, "vmovapd", uint64_t)                                               \
  STORES(X, "vmovdqa32", uint32_t)                                             \
  STORES(X, "vmovdqa64", uint64_t)                                             \
  TAILS(X, "vmovdqu8", uint8_t, 7)                                             \
  TAILS(X, "vmovdqu32", uint32_t, 6)                                           \
  TAILS(X, "vmovdqu64", uint64_t, 5)                                           \
  TAILS(X, "vmovups", uint32_t, 6)                                             \
  TAILS(X, "vmovupd", uint64_t, 5)                                             \
  X("vmovntps %zmm3, (%rax)", store<uint32_t>(e, 0, 64, 0))                    \
  X("vmovntpd %zmm3, (%rax)", store<uint64_t>(e, 0, 64, 0))                    \
  X("vmovntdq %zmm3, (%rax)", store<uint64_t>(e, 0, 64, 0))                    \
  X("vpaddd 64(%rax), %zmm1, %zmm1{%k4}", )                                    \
  X("vpaddd 64(%rax){1to16}, %zmm1, %zmm1{%k4}", )                             \
  X("vpbroadcastd 64(%rax), %zmm1{%k4}", )                                     \
  X("vbroadcasti32x4 64(%rax), %zmm1{%k4}{z}", e.clear(1, 0))                  \
  X("vpmovzxbd 8(%rax), %zmm1{%k4}", )                                         \
  X("vcmpltps 8(%rax), %zmm2, %k1{%k4}", e.r.mask[1] = 0)                      \
  EXTRACTS(X, "f32x4", uint32_t, 16)                                           \
  EXTRACTS(X, "i64x2", uint64_t, 16)                                           \
  EXTRACTS(X, "i32x8", uint32_t, 32)                                           \
  EXTRACTS(X, "i32x4", uint32_t, 16)                                           \
  EXTRACTS(X, "f64x2", uint64_t, 16)                                           \
  EXTRACTS(X, "f32x8", uint32_t, 32)                                           \
  EXTRACTS(X, "i64x4", uint64_t, 32)                                           \
  X("vcvtps2ph $0, %zmm3, (%rax)", storeNarrow<float, _Float16>(e, 0, 16, 0))  \
  X("vcvtps2ph $0, %ymm3, (%rax){%k1}", storeNarrow<float, _Float16>(e, 0, 8, 1)) \
  EXTRACTS(X, "f64x4", uint64_t, 32)                                           \
  NARROWS(X, "wb", int16_t, int8_t)                                            \
  NARROWS(X, "db", int32_t, int8_t)                                            \
  NARROWS(X, "dw", int32_t, int16_t)                                           \
  NARROWS(X, "qb", int64_t, int8_t)                                            \
  NARROWS(X, "qw", int64_t, int16_t)                                           \
  NARROWS(X, "qd", int64_t, int32_t)                                           \
  COMPRESSES(X, "d", "p", uint32_t, 6)                                         \
  COMPRESSES(X, "q", "p", uint64_t, 5)                                         \
  COMPRESSES(X, "ps", "", uint32_t, 6)                                         \
  COMPRESSES(X, "pd", "", uint64_t, 5)
// clang-format on

MOE_EFFECT_CASES(Elements, ELEMENTS);
MOE_EFFECT_CASES(Scalars, SCALARS);
MOE_EFFECT_CASES(Vectors, VECTORS);

} // namespace moek::test
