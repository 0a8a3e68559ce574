//===- VectorOperations.h - Common code of AVX-512 instructions -*- C++ -*-===//
//
// Connects the decoder and the instructions: tables from mnemonics to
// functions, and access to operands in registers and memory. Code that includes
// this is compiled for AVX2.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTCPU_VECTOROPERATIONS_H
#define MOE_TEST_SOFTCPU_VECTOROPERATIONS_H

#include "test/softcpu/VectorInstruction.h"

#include <bit>
#include <cstring>
#include <immintrin.h>
#include <span>

namespace moek::test {

/// The kinds of operands of an instruction, because mnemonics have several
/// forms.
enum class Form : uint8_t {
  Vector,      ///< Operands are vectors, masks and memory only.
  Immediate,   ///< One source, and an immediate.
  FromGeneral, ///< A source is a general register.
  ToGeneral,   ///< The destination is a general register.
  Store,       ///< The destination is in memory.
};

struct VectorRow {
  ZydisMnemonic mnemonic;
  Form form;
  VectorInstruction::Execute execute;
};

std::span<const VectorRow> integerRows();
std::span<const VectorRow> floatRows();
std::span<const VectorRow> moveRows();
std::span<const VectorRow> elementRows();
std::span<const VectorRow> maskRows();
std::span<const VectorRow> shuffleRows();
std::span<const VectorRow> conversionRows();
std::span<const VectorRow> scalarConversionRows();

/// Ends the process: the program under test did something for which a CPU
/// raises an exception.
[[noreturn]] void fault(const char *what, const void *address);

//===----------------------------------------------------------------------===//
// Vectors as values
//===----------------------------------------------------------------------===//

struct Wide {
  __m256i low, high;
};

template <class T> struct Lanes {
  static constexpr size_t kCount = sizeof(Vector) / sizeof(T);

  T at[kCount] = {};

  Lanes() = default;
  explicit Lanes(const Wide &wide) { std::memcpy(at, &wide, sizeof(at)); }
  Wide wide() const { return std::bit_cast<Wide>(at); }
  T &operator[](size_t i) { return at[i]; }
  const T &operator[](size_t i) const { return at[i]; }
};

inline Wide load(const void *from) {
  auto *halves = static_cast<const __m256i *>(from);
  return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
}

inline void store(void *to, const Wide &wide) {
  auto *halves = static_cast<__m256i *>(to);
  _mm256_storeu_si256(halves, wide.low);
  _mm256_storeu_si256(halves + 1, wide.high);
}

/// Does the work of memcpy without a sanitizer's checks: see CMakeLists.txt.
inline void copyBytes(void *to, const void *from, size_t count) {
  if (count == 64)
    std::memcpy(to, from, 64);
  else if (count == 32)
    std::memcpy(to, from, 32);
  else if (count == 16)
    std::memcpy(to, from, 16);
  else
    __asm__ volatile("rep movsb"
                     : "+D"(to), "+S"(from), "+c"(count)
                     :
                     : "memory");
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

inline uint64_t lowBits(size_t count) {
  return count >= 64 ? ~uint64_t(0) : (uint64_t(1) << count) - 1;
}

/// Returns which elements are written.
inline uint64_t activeElements(const VectorInstruction &in,
                               const Registers &regs) {
  return in.mask == 0 ? ~uint64_t(0) : regs.mask[in.mask];
}

/// Copies the elements selected by `active`; `count` is in bytes.
template <size_t Element>
inline void copyActive(std::byte *to, const std::byte *from, uint64_t active,
                       size_t count) {
  active &= lowBits(count / Element);
  // The usual mask selects the first elements.
  if ((active & (active + 1)) == 0) {
    copyBytes(to, from, size_t(std::popcount(active)) * Element);
    return;
  }
  for (; active != 0; active &= active - 1) {
    size_t at = size_t(std::countr_zero(active)) * Element;
    std::memcpy(to + at, from + at, Element);
  }
}

/// Reads the last source from memory; zeros after it and where it is not read.
template <size_t Element>
[[gnu::noinline]] Wide rightFromMemory(const VectorInstruction &in,
                                       const Registers &regs) {
  alignas(32) std::byte bytes[64] = {};
  const std::byte *from = in.address.of(regs);
  uint64_t active = activeElements(in, regs);
  if (in.source == VectorInstruction::Source::Memory) {
    copyBytes(bytes, from, in.memoryBytes);
  } else if (in.source == VectorInstruction::Source::ActiveMemory) {
    copyActive<Element>(bytes, from, active, in.memoryBytes);
  } else if (active & lowBits(in.bytes / Element)) {
    for (size_t i = 0; i * Element < sizeof(bytes); ++i)
      std::memcpy(bytes + i * Element, from, Element);
  }
  return load(bytes);
}

/// Reads the last source, whose elements have `Element` bytes.
template <size_t Element>
inline Wide right(const VectorInstruction &in, const Registers &regs) {
  if (in.source == VectorInstruction::Source::Register)
    return load(&regs.vector[in.right]);
  if (in.source == VectorInstruction::Source::Memory && in.memoryBytes == 64)
    return load(in.address.of(regs));
  return rightFromMemory<Element>(in, regs);
}

inline Wide left(const VectorInstruction &in, const Registers &regs) {
  return load(&regs.vector[in.left]);
}

template <size_t Element> struct UnsignedOf;
template <> struct UnsignedOf<1> { using Type = uint8_t; };
template <> struct UnsignedOf<2> { using Type = uint16_t; };
template <> struct UnsignedOf<4> { using Type = uint32_t; };
template <> struct UnsignedOf<8> { using Type = uint64_t; };
template <size_t Element> using Unsigned = typename UnsignedOf<Element>::Type;

/// Returns all ones in each element whose bit is set.
template <size_t Element> inline Wide spreadMask(uint64_t bits) {
  // Each element's bit is isolated from a copy of the bits around it.
  constexpr size_t kAround = Element == 1 ? 8 : Element == 2 ? 16 : 64;
  Lanes<Unsigned<Element>> around, own;
  for (size_t i = 0; i < own.kCount; ++i) {
    around[i] = Unsigned<Element>(bits >> i / kAround * kAround);
    own[i] = Unsigned<Element>(Unsigned<Element>(1) << i % kAround);
  }
  for (size_t i = 0; i < own.kCount; ++i)
    own[i] = Unsigned<Element>(around[i] & own[i] ? -1 : 0);
  return own.wide();
}

/// Returns `result` where `active`, otherwise what the masking mode says.
template <size_t Element>
inline Wide masked(const VectorInstruction &in, const Wide &result,
                   const Wide &old, uint64_t active) {
  Wide writes = spreadMask<Element>(active);
  if (in.zeroing)
    return {_mm256_and_si256(result.low, writes.low),
            _mm256_and_si256(result.high, writes.high)};
  return {_mm256_blendv_epi8(old.low, result.low, writes.low),
          _mm256_blendv_epi8(old.high, result.high, writes.high)};
}

/// Returns the first `count` bytes, followed by zeros.
inline Wide firstBytes(const Wide &wide, size_t count) {
  const __m256i kZero = _mm256_setzero_si256();
  if (count == 64)
    return wide;
  if (count == 32)
    return {wide.low, kZero};
  if (count == 16)
    return {_mm256_zextsi128_si256(_mm256_castsi256_si128(wide.low)), kZero};
  std::byte cut[64] = {};
  std::memcpy(cut, &wide, count);
  return load(cut);
}

/// Writes the destination's first `count` bytes under the mask, followed by
/// zeros.
template <size_t Element>
[[gnu::noinline]] void putPart(const VectorInstruction &in, Registers &regs,
                               Wide result, size_t count) {
  Vector &to = regs.vector[in.to];
  if (in.mask != 0)
    result = masked<Element>(in, result, load(&to), regs.mask[in.mask]);
  store(&to, firstBytes(result, count));
}

/// Writes the destination; elements of the mask have `Element` bytes.
template <size_t Element>
inline void put(const VectorInstruction &in, Registers &regs,
                const Wide &result) {
  if (in.full)
    store(&regs.vector[in.to], result);
  else
    putPart<Element>(in, regs, result, in.bytes);
}

/// Writes a destination in memory: `count` bytes under the mask.
template <size_t Element>
inline void putMemory(const VectorInstruction &in, Registers &regs,
                      const Wide &result, size_t count) {
  alignas(32) std::byte bytes[64];
  store(bytes, result);
  copyActive<Element>(in.address.of(regs), bytes, activeElements(in, regs),
                      count);
}

/// Writes the lowest element; the rest of 16 bytes is from `rest`.
template <size_t Element>
inline void putScalar(const VectorInstruction &in, Registers &regs,
                      const Wide &result, const Wide &rest) {
  Lanes<Unsigned<Element>> now(rest), value(result),
      old(load(&regs.vector[in.to]));
  now[0] = activeElements(in, regs) & 1 ? value[0]
           : in.zeroing                 ? Unsigned<Element>(0)
                                        : old[0];
  Wide wide = now.wide();
  __m128i lowest = _mm256_castsi256_si128(wide.low);
  store(&regs.vector[in.to],
        {_mm256_zextsi128_si256(lowest), _mm256_setzero_si256()});
}

//===----------------------------------------------------------------------===//
// Operations on 32 bytes, done twice. If there is a counterpart with a VEX
// prefix, it is executed: MOE_TWIN* name it.
//===----------------------------------------------------------------------===//

#define MOE_TWIN1(text)                                                        \
  [](__m256i a) {                                                              \
    asm(text " %1, %0" : "=x"(a) : "x"(a));                                    \
    return a;                                                                  \
  }
#define MOE_TWIN2(text)                                                        \
  [](__m256i a, __m256i b) {                                                   \
    asm(text " %2, %1, %0" : "=x"(a) : "x"(a), "x"(b));                        \
    return a;                                                                  \
  }
/// The destination is also a source.
#define MOE_TWIN3(text)                                                        \
  [](__m256i to, __m256i a, __m256i b) {                                       \
    asm(text " %2, %1, %0" : "+x"(to) : "x"(a), "x"(b));                       \
    return to;                                                                 \
  }

/// Elements have `From` bytes in the sources and `To` in the destination.
template <size_t From, size_t To, auto op>
void halves1(const VectorInstruction &in, Registers &regs) {
  Wide a = right<From>(in, regs);
  put<To>(in, regs, {op(a.low), op(a.high)});
}

template <size_t From, size_t To, auto op>
void halves2(const VectorInstruction &in, Registers &regs) {
  Wide a = left(in, regs), b = right<From>(in, regs);
  put<To>(in, regs, {op(a.low, b.low), op(a.high, b.high)});
}

template <size_t From, size_t To, auto op>
void halves3(const VectorInstruction &in, Registers &regs) {
  Wide to = load(&regs.vector[in.to]), a = left(in, regs),
       b = right<From>(in, regs);
  put<To>(in, regs, {op(to.low, a.low, b.low), op(to.high, a.high, b.high)});
}

//===----------------------------------------------------------------------===//
// Operations on one element, applied to all of them
//===----------------------------------------------------------------------===//

template <class T, auto op>
void each1(const VectorInstruction &in, Registers &regs) {
  Lanes<T> a(right<sizeof(T)>(in, regs)), r;
  for (size_t i = 0; i < r.kCount; ++i)
    r[i] = op(a[i]);
  put<sizeof(T)>(in, regs, r.wide());
}

template <class T, auto op>
void each2(const VectorInstruction &in, Registers &regs) {
  Lanes<T> a(left(in, regs)), b(right<sizeof(T)>(in, regs)), r;
  for (size_t i = 0; i < r.kCount; ++i)
    r[i] = op(a[i], b[i]);
  put<sizeof(T)>(in, regs, r.wide());
}

template <class T, auto op>
void eachImmediate(const VectorInstruction &in, Registers &regs) {
  Lanes<T> a(right<sizeof(T)>(in, regs)), r;
  for (size_t i = 0; i < r.kCount; ++i)
    r[i] = op(a[i], in.immediate);
  put<sizeof(T)>(in, regs, r.wide());
}

//===----------------------------------------------------------------------===//
// Operations on the lowest element. `op` works on 32 bytes.
//===----------------------------------------------------------------------===//

template <size_t Element, auto op>
void scalar2(const VectorInstruction &in, Registers &regs) {
  Wide a = left(in, regs), b = right<Element>(in, regs);
  putScalar<Element>(in, regs, {op(a.low, b.low), b.high}, a);
}

template <size_t Element, auto op>
void scalar3(const VectorInstruction &in, Registers &regs) {
  Wide to = load(&regs.vector[in.to]), a = left(in, regs),
       b = right<Element>(in, regs);
  putScalar<Element>(in, regs, {op(to.low, a.low, b.low), b.high}, to);
}

} // namespace moek::test

#endif // MOE_TEST_SOFTCPU_VECTOROPERATIONS_H
