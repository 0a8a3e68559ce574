//===- Counters.h - Counters of a kernel launch -----------------*- C++ -*-===//
//
// The counts are exact and the same on every machine, so that tests can expect
// exact numbers. They bound a kernel's speed on a GPU: bytes that DRAM or L2
// must move, passes through shared memory, tensor-core work, instructions
// issued.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_COUNTERS_H
#define MOE_TEST_SOFTGPU_COUNTERS_H

#include "test/softgpu/Program.h"

#include <array>

namespace softgpu {

struct Counters {
  /// Warp instructions with at least one active lane, by OpClass.
  std::array<uint64_t, kOpClasses> instructions{};
  uint64_t operator[](OpClass opClass) const {
    return instructions[size_t(opClass)];
  }
  uint64_t total() const;

  /// Global memory, loads (including cp.async) and stores: requests of a warp,
  /// the 32-byte sectors that each touches, and the distinct bytes that its
  /// lanes requested.
  struct Traffic {
    uint64_t requests = 0, sectors = 0, usefulBytes = 0;
    double sectorsPerRequest() const {
      return requests ? double(sectors) / requests : 0;
    }
    double movedOverUseful() const {
      return usefulBytes ? 32.0 * sectors / usefulBytes : 0;
    }
  };
  Traffic globalLoads, globalStores, globalAtomics;

  /// Shared memory: a wavefront accesses 32 banks of 4 bytes once.
  /// `idealWavefronts` is the number that the same bytes would need without
  /// bank conflicts.
  struct Banks {
    uint64_t requests = 0, wavefronts = 0, idealWavefronts = 0;
    uint64_t conflicts() const { return wavefronts - idealWavefronts; }
  };
  Banks sharedLoads, sharedStores, matrixLoads;

  /// Multiply-accumulates of mma: all, and those without an operand in a row of
  /// A, column of B or slice of k that is all zero, as the padding of a tile
  /// is.
  uint64_t macs = 0, usefulMacs = 0;
  uint64_t blocks = 0;

  Counters &operator+=(const Counters &other);
};

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_COUNTERS_H
