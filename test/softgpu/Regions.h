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
  uint32_t begin = 0, end = 0; ///< Ops of the kernel.
  uint32_t records = 0;        ///< Ops of which a recording has an Access.
};

struct Regions {
  std::vector<Region> all;
  std::vector<uint32_t> of;    ///< Region of an op.
  std::vector<int32_t> record; ///< An op's place in its region's records; -1.
};

Regions regionsOf(const Kernel &kernel);

/// Whether a recording has an Access of this op: memory, copies, atomics and
/// barriers.
bool isRecorded(const Op &op);
/// Whether no op may be moved across this one.
bool endsRegion(const Op &op);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_REGIONS_H
