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
  uint64_t source = 0; ///< Device address; 0: only zeros are written.
  uint32_t destination = 0;
  uint8_t bytes = 0, sourceBytes = 0, lane = 0;
  bool hasLanded = false;
};

struct CopyGroup {
  Mask lanes = 0; ///< Lanes that have committed the group.
  std::vector<AsyncCopy> copies;
};

struct Warp {
  std::byte *bases[2] = {}; ///< Addresses of the frame and of the constants.
  /// For each Place / kUnit, the lanes that have written it.
  uint32_t *written = nullptr;
  Mask live = 0, active = 0;
  uint32_t pc = 0;
  uint32_t nextTurn = ~0u;       ///< Lowest turn among the groups that may run.
  std::vector<LaneGroup> groups; ///< Groups of lanes that are not running.
  int index = 0;
  Block *block = nullptr;
  Launch *launch = nullptr;
  std::vector<uint8_t> local; ///< Local memory of one lane after the other.
  std::vector<uint8_t> localWritten;
  /// The clock of each warp, as far as this one knows it.
  std::array<uint32_t, kLanes> clocks{};
  /// Number of proxy fences of each warp, as far as this one knows it.
  std::array<uint32_t, kLanes> fences{};
  /// Known clocks of the warps of the cluster's other blocks, by rank; empty if
  /// none.
  std::vector<SharedMemory::Clocks> peers;
  SharedMemory::Clocks &clocksOf(size_t rank);
  /// Numbers of executed barrier.cluster instructions.
  uint64_t clusterArrivals = 0, clusterWaits = 0;
  WarpgroupState warpgroup;
  std::vector<AsyncCopy> openCopies; ///< Copies after the last commit.
  /// Committed groups of copies, the oldest first.
  std::vector<CopyGroup> copyGroups;
  uint64_t executed = 0;
  /// Lanes whose result of the last shfl is undefined.
  Mask shuffleUndefined = 0;
  /// Whether the last group in the order runs, not the first one.
  bool runsLast = false;

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
  /// For bar.red: number of lanes whose predicate was true.
  uint32_t count = 0;
  std::array<uint32_t, kLanes> clocks{}, fences{};
  std::vector<SharedMemory::Clocks> peers; ///< Same meaning as Warp::peers.
  Mask members = 0;                        ///< Bit w: warp w has arrived.
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
  uint32_t rank = 0; ///< Rank in the cluster.
  bool hasEnded = false;
  /// Keys are offsets in shared memory.
  std::map<uint32_t, Mbarrier> mbarriers;
  /// Number of bulk copies to the block: the async proxy's clock.
  uint32_t copies = 0;
  BlockClock clock; ///< What the block knows of other blocks.
  /// For each warp, its clock when it first acquired at system scope; 0: never.
  std::array<uint32_t, kLanes> acquired{};
  /// For each warpgroup, hashes of the products that its warps execute, in
  /// order.
  std::array<std::vector<uint64_t>, kLanes / 4> products;
  Ranges sectors; ///< Filled if AccessedRanges::wantsSectors.

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
  /// Copy of Kernel::constants that is aligned.
  std::vector<std::byte> constants;
  std::byte *constantBase = nullptr;
  /// Number of times that each op was executed.
  std::vector<uint64_t> executed;
  Counters counters;
  /// Number of executed instructions, by which time is counted.
  uint64_t instructions = 0;
  bool isChecked = true, isCounting = true;
  /// Belongs to the caller; null if not wanted.
  AccessedRanges *touched = nullptr;
  HostView host;
  Recorder *recorder = nullptr; ///< Null if nothing is recorded.
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
