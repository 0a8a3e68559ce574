#include "test/kernels/cuda/Bound.h"

#include <algorithm>

namespace moek::test {

using softgpu::Counters;
using softgpu::OpClass;

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
  // A multiprocessor has four schedulers.
  b.issue = double(issued(c)) / 4 * perSm;
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
