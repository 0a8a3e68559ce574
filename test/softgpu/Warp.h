//===- Warp.h - State of a running kernel -----------------------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_WARP_H
#define MOE_TEST_SOFTGPU_WARP_H

#include "test/softgpu/Cluster.h"
#include "test/softgpu/Counters.h"
#include "test/softgpu/DeviceMemory.h"
#include "test/softgpu/Finding.h"
#include "test/softgpu/HostView.h"
#include "test/softgpu/SharedMemory.h"
#include "test/softgpu/SoftGpu.h"
#include "test/softgpu/Warpgroup.h"

#include <cstring>
#include <vector>

namespace softgpu {

struct Block;
struct Launch;
class Recorder;

/// Lanes at the same program counter.
struct LaneGroup {
  uint32_t pc = 0;
  Mask lanes = 0;
  /// The barrier where it waits, or kAtMbarrier, kAtCluster; -1: may run.
  int barrier = -1;
  bool operator==(const LaneGroup &) const = default;
};

/// A copy of at most 16 bytes from global to shared memory that has not landed.
struct AsyncCopy {
  uint64_t source = 0; ///< Device address; 0: zeros only.
  uint32_t destination = 0;
  uint8_t bytes = 0, sourceBytes = 0, lane = 0;
  bool hasLanded = false;
};

struct CopyGroup {
  Mask lanes = 0; ///< Lanes that committed it.
  std::vector<AsyncCopy> copies;
};

struct Warp {
  std::byte *bases[2] = {}; ///< Frame and constants.
  uint32_t *written =
      nullptr; ///< Lanes that have written a register, by Place / kUnit.
  Mask live = 0, active = 0;
  uint32_t pc = 0;
  uint32_t nextTurn = ~0u;       ///< Lowest turn of the groups that may run.
  std::vector<LaneGroup> groups; ///< Groups that are not running.
  int index = 0;
  Block *block = nullptr;
  Launch *launch = nullptr;
  std::vector<uint8_t> local; ///< Local memory, lane after lane.
  std::vector<uint8_t> localWritten;
  std::array<uint32_t, kLanes>
      clocks{}; ///< Known clock of each warp, including its own.
  std::array<uint32_t, kLanes>
      fences{}; ///< Known proxy fences of each warp, likewise.
  /// Known clocks of the warps of the cluster's other blocks, by rank; empty if
  /// none.
  std::vector<SharedMemory::Clocks> peers;
  SharedMemory::Clocks &clocksOf(size_t rank);
  uint64_t clusterArrivals = 0, clusterWaits = 0; ///< Of barrier.cluster.
  WarpgroupState warpgroup;
  std::vector<AsyncCopy> openCopies; ///< Since the last commit.
  std::vector<CopyGroup> copyGroups; ///< Committed, oldest first.
  uint64_t executed = 0;
  Mask shuffleUndefined = 0; ///< Lanes of the last shfl.
  bool runsLast = false; ///< The group last in the order runs, not the first.

  template <class T> T *lanes(Place place) {
    return reinterpret_cast<T *>(bases[place >> 31] + (place & ~kConstant));
  }
  Mask &predicate(Place place) { return *lanes<Mask>(place); }
  bool isDone() const { return !live; }
};

/// Stores the values of the lanes in `mask`.
template <class T> inline void store(T *to, const T *from, Mask mask) {
  if (mask == ~Mask(0)) {
    std::memcpy(to, from, sizeof(T) * kLanes);
    return;
  }
  for (int i = 0; i < kLanes; ++i)
    to[i] = mask >> i & 1 ? from[i] : to[i];
}

struct Barrier {
  uint32_t lanes = 0;    ///< Lanes that have arrived.
  uint32_t arrived = 0;  ///< Threads that have arrived; whole warps if aligned.
  uint32_t expected = 0; ///< Threads expected; 0: all live ones.
  uint32_t count = 0;    ///< bar.red: lanes whose predicate was true.
  std::array<uint32_t, kLanes> clocks{}, fences{};
  std::vector<SharedMemory::Clocks> peers; ///< As Warp::peers.
  Mask members = 0;                        ///< Warps that have arrived.
};

struct Block {
  Launch *launch = nullptr;
  uint32_t id[3] = {0, 0, 0};
  uint64_t linear = 0;
  uint32_t threads = 0;
  std::vector<Warp> warps;
  std::vector<std::byte> frames;
  std::vector<uint32_t> written;
  SharedMemory shared;
  std::array<Barrier, 16> barriers;
  Cluster *cluster = nullptr;
  uint32_t rank = 0; ///< In its cluster.
  bool hasEnded = false;
  std::map<uint32_t, Mbarrier> mbarriers; ///< By place in shared memory.
  uint32_t copies = 0; ///< Bulk copies to it: the clock of the async proxy.
  BlockClock clock;    ///< What it knows of other blocks.
  /// For each warp, its clock when it first acquired at system scope; 0: never.
  std::array<uint32_t, kLanes> acquired{};
  /// For each warpgroup, hashes of the products that its warps execute, in
  /// order.
  std::array<std::vector<uint64_t>, kLanes / 4> products;
  Ranges sectors; ///< Used if AccessedRanges::wantsSectors.

  /// Returns (x, y, z) of a lane's thread.
  void thread(const Warp &warp, int lane, uint32_t out[3]) const;
};

inline SharedMemory::Clocks &Warp::clocksOf(size_t rank) {
  if (rank == block->rank)
    return clocks;
  peers.resize(block->cluster->blocks.size());
  return peers[rank];
}

struct Launch {
  const Kernel *kernel = nullptr;
  LaunchShape shape;
  const SoftGpuOptions *options = nullptr;
  DeviceMemory *memory = nullptr;
  std::vector<uint8_t> params;
  std::vector<std::byte> constants; ///< Kernel::constants, aligned.
  std::byte *constantBase = nullptr;
  std::vector<uint64_t> executed; ///< How often each op was executed.
  Counters counters;
  uint64_t instructions = 0; ///< Also serves as the clock.
  bool isChecked = true, isCounting = true;
  AccessedRanges *touched = nullptr; ///< The caller's; null if not wanted.
  HostView host;
  Recorder *recorder = nullptr; ///< Null: nothing is recorded.
};

/// Throws a Finding at `lane` of `warp`, whose instruction is `op`.
[[noreturn]] void report(const Warp &warp, const Op &op, int lane,
                         FindingKind kind, std::string what,
                         uint64_t address = 0);

/// Runs `warp` until it waits, ends or has used `quantum` instructions.
/// Returns whether it executed any.
bool runWarp(Warp &warp, uint64_t quantum);

/// Lets lanes continue at barriers that are complete; returns whether there
/// were any.
bool releaseBarriers(Block &block);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_WARP_H
