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

const PeakLoops &loopsOf(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::Avx512 || isa == Isa::Amx)
    return kPeakAvx512;
  if (isa == Isa::Avx2)
    return kPeakAvx2;
#endif
  return kPeakRef;
}
} // namespace

const PeakLoops kPeakRef = {int8Loop, floatLoop, nullptr, read};

double runPeakLoop(Isa isa, Peak kind, int64_t iterations) {
  const PeakLoops &loops = loopsOf(isa);
#if defined(__x86_64__)
  if (isa == Isa::Amx && kind != Peak::Float)
    return (kind == Peak::Int8 ? kPeakAmx.int8 : kPeakAmx.bf16)(iterations);
#endif
  switch (kind) {
  case Peak::Int8:
    return loops.int8(iterations);
  case Peak::Float:
    return loops.floating(iterations);
  case Peak::Bf16:
    return loops.bf16 && hostHasBf16Dot() ? loops.bf16(iterations) : 0;
  }
  return 0;
}

uint64_t readAll(Isa isa, std::span<const std::byte> bytes) {
  return loopsOf(isa).read(bytes.data(), bytes.size());
}

} // namespace moek
