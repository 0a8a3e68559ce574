//===- DeviceMemory.h - Memory of a software GPU ----------------*- C++ -*-===//
//
// Addresses begin at 2^48, where this process has no memory and no host pointer
// can be, so that mixing them up faults. There are gaps between allocations.
// Pages use no memory until they are touched, so that tensors of hundreds of GB
// can be allocated.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_DEVICEMEMORY_H
#define MOE_TEST_SOFTGPU_DEVICEMEMORY_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace softgpu {

/// Pages that are zero until they are written.
class LazyPages {
public:
  LazyPages() = default;
  explicit LazyPages(uint64_t bytes);
  ~LazyPages();
  LazyPages(LazyPages &&other) noexcept;
  LazyPages &operator=(LazyPages &&other) noexcept;
  void *data() const { return data_; }
  void clear(); ///< Makes all counters zero again.
private:
  void *data_ = nullptr;
  uint64_t bytes_ = 0;
};

struct Allocation {
  std::string name;
  uint64_t base = 0, bytes = 0;
  uint8_t *host = nullptr; ///< Address of the bytes in the host's memory.
  bool isFreed = false, isReadOnly = false;
  bool isHost = false; ///< Mapped host memory: `host` is not owned.
  /// Bit i: byte i was written. Null: all bytes were.
  uint64_t *valid = nullptr;
  /// Tags of the writers of each granule (BlockRaces.cpp).
  uint32_t *writers = nullptr;
  uint32_t *readers = nullptr;
  uint32_t raceBase = 0; ///< Number of the launch in which tags were cleared.
  LazyPages pages, validPages, racePages;

  bool isWritten(uint64_t offset, uint64_t count) const;
  void markWritten(uint64_t offset, uint64_t count);
};

/// What a block has seen of other blocks' work. Blocks are known by agents:
/// after each fence or release a block continues as a new agent, so that what
/// it did before can be told from what follows.
struct BlockClock {
  struct View { ///< The newest agent of each block that is known.
    std::unordered_map<uint32_t, uint32_t> newest;
    void join(const View &other);
  };
  uint32_t block = 0, agent = 0;
  View known, fenced,
      /// fenced: known at the last fence; pending: read, not yet fenced.
      pending;
};

/// Detects races between blocks of a grid by happens-before: a block's weak
/// accesses are ordered with another's only through a release that an acquire
/// has read.
class BlockRaces {
public:
  static constexpr int64_t kSeveral = INT64_MAX;
  void beginLaunch();
  uint32_t launch() const { return launch_; }
  void beginBlock(BlockClock &clock, uint32_t block);

  /// Returns the block that the access races with, kSeveral, or -1. `isStrong`:
  /// atomic, volatile or relaxed.
  int64_t read(Allocation &allocation, uint64_t offset, uint64_t bytes,
               const BlockClock &clock, bool isStrong);
  int64_t write(Allocation &allocation, uint64_t offset, uint64_t bytes,
                const BlockClock &clock, bool isStrong);

  void fence(BlockClock &clock);
  void release(uint64_t address, BlockClock &clock, bool isOrdered);
  void acquire(uint64_t address, BlockClock &clock, bool isOrdered);
  /// Returns whether the block of `clock` has seen what `agent` did.
  bool isBefore(uint32_t agent, const BlockClock &clock) const;

private:
  void newAgent(BlockClock &clock);
  uint32_t launchTag(Allocation &allocation);

  uint32_t launch_ = 0;
  /// Whether this launch has a fence; without, no block knows of others.
  bool hasFenced_ = false;
  std::vector<uint32_t> blocks_; ///< The block of each agent.
  /// Knowledge that strong writes to each address have released.
  std::unordered_map<uint64_t, BlockClock::View> released_;
};

class DeviceMemory {
public:
  static constexpr uint64_t kBase = uint64_t(1) << 48;
  static constexpr uint64_t kGap = uint64_t(1) << 16;
  /// Begins of the windows in the generic address space.
  static constexpr uint64_t kSharedWindow = uint64_t(0x7F) << 52;
  static constexpr uint64_t kLocalWindow = uint64_t(0x7E) << 52;
  static constexpr uint64_t kParamWindow = uint64_t(0x7D) << 52;
  static constexpr uint64_t kWindowBytes = uint64_t(1) << 24;

  /// Addresses begin at kBase + offset.
  explicit DeviceMemory(uint64_t offset = 0) : next_(kBase + offset) {}

  /// Returns a 256-byte aligned address, even for 0 bytes.
  uint64_t allocate(uint64_t bytes, std::string name);
  /// Returns a device address of host memory, valid until free().
  uint64_t map(void *host, uint64_t bytes, std::string name);
  /// Returns false if no allocation begins exactly at `address`.
  bool free(uint64_t address);
  uint64_t liveBytes() const { return liveBytes_; }

  /// Returns the allocation, live or freed, that contains `address`, or null in
  /// a gap.
  Allocation *find(uint64_t address);
  /// Does the work of find() for threads other than the one that runs kernels.
  Allocation *lookup(uint64_t address) const;
  template <class Visit> void forEachLive(Visit visit) const {
    for (const auto &[base, allocation] : allocations_)
      if (!allocation->isFreed)
        visit(*allocation);
  }
  /// "8 bytes past the end of 'x' (4096 bytes at 0x1000000000000)".
  std::string describe(uint64_t address) const;

  /// Accesses by the host; false if the range is not inside one allocation.
  bool copyIn(uint64_t to, const void *from, uint64_t bytes);
  bool copyOut(void *to, uint64_t from, uint64_t bytes);
  bool fill(uint64_t to, uint8_t value, uint64_t bytes);

  BlockRaces races;

private:
  Allocation *range(uint64_t address, uint64_t bytes);
  uint64_t place(std::unique_ptr<Allocation> allocation);

  std::map<uint64_t, std::unique_ptr<Allocation>> allocations_;
  Allocation *last_ = nullptr;
  uint64_t next_;
  uint64_t liveBytes_ = 0;
};

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_DEVICEMEMORY_H
