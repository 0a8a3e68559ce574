//===- DeviceMemory.h - Memory of a software GPU ----------------*- C++ -*-===//
//
// Addresses begin at 2^48, where this process has nothing and a host's pointer
// cannot be, so a mix-up faults; between allocations lie gaps. Pages cost
// nothing until they are touched: tensors of hundreds of GB can be allocated.
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

/// Pages that are zero until they are touched.
class LazyPages {
public:
  LazyPages() = default;
  explicit LazyPages(uint64_t bytes);
  ~LazyPages();
  LazyPages(LazyPages &&other) noexcept;
  LazyPages &operator=(LazyPages &&other) noexcept;
  void *data() const { return data_; }
  void clear(); ///< Zero again.
private:
  void *data_ = nullptr;
  uint64_t bytes_ = 0;
};

struct Allocation {
  std::string name;
  uint64_t base = 0, bytes = 0;
  uint8_t *host = nullptr; ///< Where its bytes are.
  bool isFreed = false, isReadOnly = false;
  bool isHost = false;         ///< Mapped: `host` is not ours.
  uint64_t *valid = nullptr;   ///< A bit a byte: written once. Null: all were.
  uint32_t *writers = nullptr; ///< By granules of 4 bytes: RaceTags.
  uint32_t *readers = nullptr;
  uint32_t raceBase = 0; ///< Launch at which tags were cleared.
  LazyPages pages, validPages, racePages;

  bool isWritten(uint64_t offset, uint64_t count) const;
  void markWritten(uint64_t offset, uint64_t count);
};

/// What a block has seen of others' work. A block that releases is another
/// agent from then on.
struct BlockClock {
  struct View { ///< Newest agent known, by block.
    std::unordered_map<uint32_t, uint32_t> newest;
    void join(const View &other);
  };
  uint32_t block = 0, agent = 0;
  View known, fenced,
      pending; ///< fenced: at the last fence; pending: read, not yet fenced.
};

/// Races between blocks of one grid, by happens-before: a block's weak accesses
/// are ordered with another's only through a release that an acquire has read.
class BlockRaces {
public:
  static constexpr int64_t kSeveral = INT64_MAX;
  void beginLaunch();
  uint32_t launch() const { return launch_; }
  void beginBlock(BlockClock &clock, uint32_t block);

  /// The block that it races with, kSeveral, or -1. `isStrong`: atomic,
  /// volatile, relaxed.
  int64_t read(Allocation &allocation, uint64_t offset, uint64_t bytes,
               const BlockClock &clock, bool isStrong);
  int64_t write(Allocation &allocation, uint64_t offset, uint64_t bytes,
                const BlockClock &clock, bool isStrong);

  void fence(BlockClock &clock);
  void release(uint64_t address, BlockClock &clock, bool isOrdered);
  void acquire(uint64_t address, BlockClock &clock, bool isOrdered);

private:
  bool isBefore(uint32_t agent, const BlockClock &clock) const;
  void newAgent(BlockClock &clock);
  uint32_t launchTag(Allocation &allocation);

  uint32_t launch_ = 0;
  bool hasFenced_ =
      false; ///< Somebody, in this launch: else no block knows others.
  std::vector<uint32_t> blocks_;                            ///< By agent.
  std::unordered_map<uint64_t, BlockClock::View> released_; ///< By address.
};

class DeviceMemory {
public:
  static constexpr uint64_t kBase = uint64_t(1) << 48;
  static constexpr uint64_t kGap = uint64_t(1) << 16;
  /// Windows of generic addresses.
  static constexpr uint64_t kSharedWindow = uint64_t(0x7F) << 52;
  static constexpr uint64_t kLocalWindow = uint64_t(0x7E) << 52;
  static constexpr uint64_t kParamWindow = uint64_t(0x7D) << 52;
  static constexpr uint64_t kWindowBytes = uint64_t(1) << 24;

  /// Addresses begin at kBase + offset.
  explicit DeviceMemory(uint64_t offset = 0) : next_(kBase + offset) {}

  /// 256-byte aligned, 0 bytes make an address too.
  uint64_t allocate(uint64_t bytes, std::string name);
  /// An address of memory of the host's, until it is freed.
  uint64_t map(void *host, uint64_t bytes, std::string name);
  /// False if nothing is allocated at exactly `address`.
  bool free(uint64_t address);
  uint64_t liveBytes() const { return liveBytes_; }

  /// The allocation, freed or not, that holds `address`; null in a gap.
  Allocation *find(uint64_t address);
  /// The same for threads other than the one that runs kernels.
  Allocation *lookup(uint64_t address) const;
  /// "8 bytes past the end of 'x' (4096 bytes at 0x1000000000000)".
  std::string describe(uint64_t address) const;

  /// What the host does; false if the range is not inside one allocation.
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
