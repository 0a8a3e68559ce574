//===- Regions.h - Straight pieces of a kernel ------------------*- C++ -*-===//
//
// A region is a run of ops that execute one after the other and that a compiler
// may reorder: it ends at branches, barriers, fences and waits, and begins
// where a branch leads. Recordings of a warp are lists of regions.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_REGIONS_H
#define MOE_TEST_SOFTGPU_REGIONS_H

#include "test/softgpu/Program.h"

namespace softgpu {

struct Region {
  uint32_t begin = 0, end = 0; ///< Range of the kernel's ops.
  uint32_t records = 0; ///< Number of ops that have an Access in a recording.
};

struct Regions {
  std::vector<Region> all;
  std::vector<uint32_t> of; ///< For each op: its region.
  /// For each op: its index in the region's records; -1: none.
  std::vector<int32_t> record;
};

Regions regionsOf(const Kernel &kernel);

/// Whether a recording has an Access of this op: memory, copies, atomics and
/// barriers.
bool isRecorded(const Op &op);
/// Whether no op may be moved across this one.
bool endsRegion(const Op &op);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_REGIONS_H
