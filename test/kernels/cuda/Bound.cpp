#include "test/kernels/cuda/Bound.h"

#include <algorithm>

namespace moek::test {

using softgpu::Counters;
using softgpu::OpClass;

std::span<const GpuModel> gpuModels() {
  // From NVIDIA's data sheets and white papers; lanes: CUDA C++ Programming
  // Guide, "Throughput of native arithmetic instructions".
  static constexpr GpuModel kModels[] = {
      {"3090", 86, 82, 1.695, 936, 16, 1024, 256, 128, 64, true},
      {"4090", 89, 128, 2.52, 1008, 16, 1024, 256, 128, 64, true},
      {"5090", 120, 170, 2.41, 1792, 16, 1024, 256, 128, 128, true},
      {"A100", 80, 108, 1.41, 1555, 32, 2048, 1024, 64, 64, false},
      {"H100", 90, 132, 1.83, 3350, 24, 4096, 2048, 128, 64, false}};
  return kModels;
}

double Bound::all() const { return std::max({dram, l2, mma, issue, pipes}); }

std::string_view Bound::name() const {
  double most = all();
  return most == dram    ? "DRAM"
         : most == mma   ? "mma"
         : most == l2    ? "L2"
         : most == issue ? "issue"
                         : "pipes";
}

uint64_t issued(const Counters &c) {
  return c.total() - c[OpClass::Move] - c[OpClass::ConstLoad];
}

Bound boundOf(const Counters &c, uint64_t dramBytes, uint64_t l2Bytes,
              bool isHalf, const GpuModel &gpu) {
  double perSm = 1.0 / gpu.multiprocessors;
  Bound b;
  b.dram = double(dramBytes) * gpu.gigahertz / gpu.gigabytes;
  b.l2 = double(l2Bytes) / gpu.l2Bytes * perSm;
  b.mma = double(c.macs) / (isHalf ? gpu.halfMacs : gpu.int8Macs) * perSm;
  b.issue = double(issued(c)) / 4 * perSm; // Four schedulers.
  double floats = double(c[OpClass::Float] + c[OpClass::Half]);
  double integers = double(c[OpClass::Integer] + c[OpClass::Predicate] +
                           c[OpClass::DotProduct]);
  double lanes =
      std::max(floats * 32 / gpu.floatLanes, integers * 32 / gpu.integerLanes);
  if (gpu.isShared)
    lanes = std::max(lanes, (floats + integers) * 32 / gpu.floatLanes);
  double special =
      double(c[OpClass::Special]) * 2 + double(c[OpClass::Convert]) / 2;
  double wavefronts =
      double(c.sharedLoads.wavefronts + c.sharedStores.wavefronts +
             c.matrixLoads.wavefronts);
  b.pipes = std::max({lanes, special, wavefronts}) * perSm;
  return b;
}

} // namespace moek::test
