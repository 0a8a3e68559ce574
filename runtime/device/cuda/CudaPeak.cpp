#include "runtime/device/cuda/CudaPeak.h"

namespace moert {

namespace {
struct Row {
  int arch;
  CudaPeak peak;
};

/// Vendors' rates, divided by the number of multiprocessors and the boost
/// clock.
constexpr Row rows[] = {
    {75, {2048, 512}},    // RTX 2080 Ti: 215 TOPS, 54 TFLOPS, 68 at 1.545 GHz
    {80, {4096, 2048}},   // A100: 624 TOPS, 312 TFLOPS, 108 at 1.41 GHz
    {86, {2048, 512}},    // RTX 3090: 285 TOPS, 71 TFLOPS, 82 at 1.695 GHz
    {89, {2048, 512}},    // RTX 4090: 661 TOPS, 165 TFLOPS, 128 at 2.52 GHz
    {90, {8192, 4096}},   // H100: 1979 TOPS, 989 TFLOPS, 132 at 1.83 GHz
    {100, {16384, 8192}}, // B200: 4500 TOPS, 2250 TFLOPS, 148 at 1.85 GHz
    {103, {512, 8192}},   // B300: 150 TOPS, 2250 TFLOPS, 148 at 1.92 GHz
    {120, {2048, 512}},   // RTX 5090: 838 TOPS, 210 TFLOPS, 170 at 2.407 GHz
};
} // namespace

std::optional<CudaPeak> cudaPeak(int arch) {
  std::optional<CudaPeak> found;
  for (const Row &row : rows)
    if (row.arch <= arch && row.arch / 10 == arch / 10)
      found = row.peak;
  return found;
}

} // namespace moert
