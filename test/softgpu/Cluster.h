//===- Cluster.h - Clusters of blocks, and copies into them -----*- C++ -*-===//
//
// The blocks of a cluster (.reqnctapercluster) begin together and can meet at
// barrier.cluster. A bulk copy (cp.async.bulk) brings a piece of global memory
// to the same place in the shared memory of several of them, in the background,
// and counts its bytes at an mbarrier of each. An mbarrier's phase is complete
// when all its arrivals have come and all bytes that they expect.
//
// Order: the async proxy, which writes the bytes, has a clock among those of
// warps (SharedMemory::kProxyWarp). Who waits for a phase knows what was copied
// in it; who issues a copy must know that all earlier readers of its
// destination are done, in other blocks by barrier.cluster.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_CLUSTER_H
#define MOE_TEST_SOFTGPU_CLUSTER_H

#include "test/softgpu/Program.h"
#include "test/softgpu/SharedMemory.h"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace softgpu {

struct Block;
struct Warp;

/// A copy that a block receives. `source` is a device address; the others are
/// places in shared memory.
struct BulkCopy {
  uint64_t source = 0;
  uint32_t destination = 0, bytes = 0;
  uint32_t clock = 0; ///< Clock of the async proxy.
  bool hasLanded = false;
};

struct Mbarrier {
  using Clocks = SharedMemory::Clocks;
  uint32_t count = 0;   ///< Number of arrivals that end a phase.
  uint32_t pending = 0; ///< Arrivals that the open phase still needs.
  int64_t bytes = 0;    ///< Expected bytes that have not arrived (tx-count).
  uint64_t phase = 0;   ///< Number of complete phases.
  int warp = 0;         ///< Warp that has initialised the mbarrier.
  bool isFenced = false;
  Clocks arrived{};  ///< Clocks that arrivals in the open phase know.
  Clocks complete{}; ///< Clocks that arrivals in complete phases knew.
  std::vector<BulkCopy> copies; ///< Bulk copies of the open phase.
  /// Bulk copies of complete phases that no warp has seen yet.
  std::vector<BulkCopy> landed;
};

/// Clocks that a cluster's warps have brought to one phase of barrier.cluster.
struct ClusterPhase {
  uint64_t number = 0;
  std::vector<SharedMemory::Clocks> known; ///< Clocks of each block's warps.
};

struct Cluster {
  /// Blocks by rank in the cluster.
  std::vector<std::unique_ptr<Block>> blocks;
  ClusterPhase phases[2]; ///< At most two are in use.
};

/// Values of LaneGroup::barrier for lanes that wait at no bar.
inline constexpr int kAtMbarrier = 16, kAtCluster = 17;

/// The lanes of `mask` wait for an mbarrier's phase or a cluster. Returns which
/// of the values above says where, or -1 if they may go on.
int awaitOthers(Warp &warp, const Op &op, Mask mask);

/// Lets lanes continue whose wait is over; returns whether there were any.
bool releaseWaits(Block &block);

/// Returns what lanes that wait at `op` wait for, for a finding.
std::string describeWait(Warp &warp, const Op &op, int barrier);

/// Checks that nothing will be copied to a block that has ended.
void checkBlockEnd(Block &block);

/// fence.mbarrier_init: bulk copies may use what the warp has initialised.
void fenceMbarriers(Warp &warp, const Op &op, Mask mask);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_CLUSTER_H
