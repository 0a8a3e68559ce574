//===- Recording.h - What a launch did, for the clock -----------*- C++ -*-===//
//
// A recording has, for some blocks of a grid, the regions that each warp
// executed and what its memory operations touched. Blocks that did the same are
// one class, of which a few are kept. Caches are modelled as the memory of the
// last bytes that were touched: L1 by the block, L2 by everything before.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_RECORDING_H
#define MOE_TEST_SOFTGPU_RECORDING_H

#include "test/softgpu/GpuModel.h"
#include "test/softgpu/Ranges.h"
#include "test/softgpu/Regions.h"
#include "test/softgpu/SoftGpu.h"

#include <map>

namespace softgpu {

struct Block;

/// Result of a recorded op of a warp. All zero: its guard was false.
struct Access {
  // Global memory, in sectors of 32 bytes; of cp.async also `wavefronts`.
  uint16_t sectors = 0;
  uint16_t beyondL1 = 0;  ///< Number of the sectors that L2 serves.
  uint16_t beyondL2 = 0;  ///< Number of the sectors that DRAM serves.
  uint8_t lines = 0;      ///< Lines of 128 bytes that the op touched.
  uint8_t wavefronts = 0; ///< Wavefronts of shared memory.
  // Barriers. An mbarrier's number is its place in shared memory by 8;
  // `copied` has the bytes that are expected there, or that a bulk copy brings
  // to all its blocks.
  uint32_t copied = 0;
  /// Number of threads; 0: all that have not ended.
  uint16_t barrier = 0, threads = 0;
  bool isActive = false, isWrite = false;
};

struct WarpTrace {
  std::vector<uint32_t> regions;
  std::vector<uint32_t> begins; ///< Index of the first access of each region.
  std::vector<Access> accesses;
};

struct BlockTrace {
  uint64_t block = 0;
  uint64_t instructions = 0; ///< Sum over the block's warps.
  uint64_t bytes[3] = {};    ///< Bytes requested by lanes; from L2; from DRAM.
  std::vector<WarpTrace> warps;
};

/// Blocks whose warps executed the same regions.
struct BlockClass {
  std::vector<BlockTrace> kept;             ///< At least one.
  uint64_t instructions = 0, bytes[3] = {}; ///< Averages of a block.
  uint64_t executed = 0;
};

/// A cache of sectors that keeps what was touched last.
class SectorCache {
public:
  SectorCache();
  /// Touches a sector. Returns whether the cache had it: fewer than `capacity`
  /// bytes were brought in since it was touched last.
  bool touch(uint64_t sector, uint64_t capacity);
  void clear();

private:
  struct Slot {
    uint64_t sector = 0, stamp = 0;
    uint32_t generation = 0;
  };
  void grow();
  std::vector<Slot> slots_;
  size_t used_ = 0;
  uint32_t generation_ = 1;
  uint64_t bytes_ = 0;
};

class Recorder;

/// A launch's recording. `gpu` decides what caches hold.
struct Recording {
  explicit Recording(const GpuModel &gpu) : gpu(&gpu) {}

  const GpuModel *gpu;
  /// Blocks to execute, ascending; empty: all. If some are left out, what the
  /// launch computes is wrong.
  std::vector<uint64_t> blocks;
  /// After so many instructions of warps no further block is begun.
  uint64_t budget = ~uint64_t(0);
  /// L2, which the caller may keep from launch to launch; null: empty.
  SectorCache *l2 = nullptr;
  /// Allocations of fewer bytes are in L2 before the launch.
  uint64_t warmBytes = uint64_t(1) << 20;
  /// Addresses that are in L2 before the launch.
  std::vector<Range> warm;

  // Results.
  Regions regions;
  std::vector<BlockClass> classes;
  /// The number of a block, and its class.
  std::vector<std::pair<uint64_t, uint32_t>> executed;
  uint64_t grid = 0; ///< Number of all blocks.
  /// Bytes that the executed blocks read with one op.
  struct Source {
    uint64_t begin = ~uint64_t(0), end = 0; ///< Range of addresses.
    uint64_t requested = 0;                 ///< Bytes that L1 did not have.
    uint64_t cold = 0; ///< Bytes that L2 did not have, either.
  };
  std::vector<Source> sources; ///< One for each op of the kernel.

  bool isWarm(uint64_t address) const;
  /// Bytes between two addresses that are in L2 before the launch.
  uint64_t warmBetween(uint64_t begin, uint64_t end) const;
};

/// Fills a Recording while its launch runs.
class Recorder {
public:
  Recorder(Recording &recording, const Kernel &kernel);

  void beginBlock(const Block &block);
  void endBlock(const Block &block);

  /// Called before and after the execution of an op by some lanes of a warp.
  void beginOp(const Warp &warp, uint32_t pc);
  void endOp(Warp &warp, uint32_t pc, Mask mask);
  /// A request of global memory by the op between beginOp() and endOp().
  void global(Warp &warp, const uint64_t *address, Mask mask, uint32_t bytes,
              bool isWrite, bool isBeyondL1);
  /// Records that the op uses the mbarrier at `barrier`, for a number of bytes.
  void background(uint32_t barrier, uint32_t bytes);

private:
  struct Open { ///< A block that is running.
    BlockTrace trace;
    SectorCache l1;
    std::vector<uint64_t> hash; ///< For each warp, a hash of its regions.
    /// For each warp, the op that follows if there is no jump.
    std::vector<uint32_t> at;
  };

  Recording &recording_;
  const Kernel &kernel_;
  std::map<uint64_t, Open> open_; ///< Keys are linear block indices.
  /// Keys are hashes, values numbers of classes.
  std::map<uint64_t, uint32_t> classes_;
  SectorCache ownL2_;
  uint64_t l1Bytes_ = 0;
  Open *last_ = nullptr;
  const Block *lastBlock_ = nullptr;
  Access current_;
  uint32_t op_ = 0; ///< Index of the op that executes.
  uint64_t wavefronts_ = 0;
};

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_RECORDING_H
