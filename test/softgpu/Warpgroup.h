//===- Warpgroup.h - State of wgmma -----------------------------*- C++ -*-===//
//
// Products of warpgroups run in the background: registers and shared memory
// that they use are theirs from wgmma.mma_async until the wait. The software
// GPU multiplies at once, and reports what would then have differed.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_WARPGROUP_H
#define MOE_TEST_SOFTGPU_WARPGROUP_H

#include "test/softgpu/Program.h"

#include <deque>
#include <vector>

namespace softgpu {

/// A warp's products. Empty in kernels without wgmma.
struct WarpgroupState {
  /// For a register (index Place / kUnit): the last groups of products that
  /// read and wrote it.
  struct Use {
    uint32_t read = 0, written = 0;
    /// Whether a wgmma.fence came after the last change.
    bool isFenced = false;
  };
  std::vector<Use> uses;
  /// Granules of shared memory that a group reads.
  struct Group {
    uint32_t number;
    std::vector<uint32_t> granules;
  };
  /// Groups that were not waited for; the last one may be open.
  std::deque<Group> groups;
  uint32_t next = 1;     ///< Number of the open group.
  uint32_t done = 0;     ///< Number of the last group that was waited for.
  uint32_t products = 0; ///< Number of executed products.
};

struct Warp;

/// Checks of an op that is no wgmma, before it runs: it may not touch registers
/// of products in flight. Only for warps with WarpgroupState::uses.
void checkRegisters(Warp &warp, const Op &op, Mask mask);

/// Checks that a warp's end leaves no product in flight, and that the four
/// warps of its group executed the same ones.
void checkEnd(Warp &warp, const Op &op);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_WARPGROUP_H
