#include "kernels/Peak.h"

#include "kernels/PeakLoops.h"

#include <cstring>

namespace moek {

namespace {
double int8Loop(int64_t iterations) {
  // 16 independent chains. Volatile factors prevent constant folding.
  volatile int8_t a = 3, b = 5;
  int32_t sums[16] = {};
  for (int64_t i = 0; i < iterations; ++i) {
    int32_t x = a, y = b;
    for (int32_t &sum : sums)
      sum += x * y;
  }
  volatile int32_t keep = 0;
  for (int32_t sum : sums)
    keep = keep + sum;
  return 2.0 * 16 * double(iterations);
}

double floatLoop(int64_t iterations) {
  volatile float a = 0.5f, b = 1.0f;
  float sums[16] = {};
  for (int64_t i = 0; i < iterations; ++i) {
    float x = a, y = b;
    for (float &sum : sums)
      sum = sum * x + y;
  }
  volatile float keep = 0;
  for (float sum : sums)
    keep = keep + sum;
  return 2.0 * 16 * double(iterations);
}

uint64_t read(const std::byte *data, size_t bytes) {
  uint64_t sums[8] = {};
  size_t i = 0;
  for (; i + 64 <= bytes; i += 64)
    for (size_t lane = 0; lane < 8; ++lane) {
      uint64_t word;
      std::memcpy(&word, data + i + lane * 8, 8);
      sums[lane] += word;
    }
  uint64_t total = 0;
  for (; i < bytes; ++i)
    total += static_cast<uint64_t>(data[i]);
  for (uint64_t sum : sums)
    total += sum;
  return total;
}

/// Returns a set's own loops, or null.
const PeakLoops *loopsOf(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
  case Isa::Amx:
    return &kPeakAmx;
  case Isa::Avx512:
    return &kPeakAvx512;
  case Isa::AvxVnni:
    return &kPeakAvxVnni;
  case Isa::Avx2:
    return &kPeakAvx2;
#elif defined(__aarch64__)
  case Isa::NeonI8mm:
    return &kPeakNeonI8mm;
  case Isa::Neon:
    return &kPeakNeon;
#endif
  case Isa::Ref:
    return &kPeakRef;
  default:
    return nullptr;
  }
}

/// Returns a member of the loops of `isa`, or of the nearest of its bases that
/// has it; null if none has.
template <class Member> auto memberOf(Isa isa, Member member) {
  for (;; isa = isaTable()[size_t(isa)].base) {
    const PeakLoops *loops = loopsOf(isa);
    if (auto function = loops ? loops->*member : nullptr;
        function || isa == isaTable()[size_t(isa)].base)
      return function;
  }
}
} // namespace

const PeakLoops kPeakRef = {int8Loop, floatLoop, nullptr, read};

double runPeakLoop(Isa isa, Peak kind, int64_t iterations) {
  switch (kind) {
  case Peak::Int8:
    return memberOf(isa, &PeakLoops::int8)(iterations);
  case Peak::Float:
    return memberOf(isa, &PeakLoops::floating)(iterations);
  case Peak::Bf16:
    auto loop = memberOf(isa, &PeakLoops::bf16);
    // The instructions of AVX-512 are an extension, and AMX has its own.
    return loop && (isa == Isa::Amx || hostHasBf16Dot()) ? loop(iterations) : 0;
  }
  return 0;
}

double runProductLoop(Isa isa, Format format, int64_t iterations) {
  const PeakLoops *loops = loopsOf(isa);
  return loops && loops->products ? loops->products(format, iterations)
                                  : runPeakLoop(isa, Peak::Int8, iterations);
}

uint64_t readAll(Isa isa, std::span<const std::byte> bytes) {
  return memberOf(isa, &PeakLoops::read)(bytes.data(), bytes.size());
}

} // namespace moek
