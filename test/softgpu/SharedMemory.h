//===- SharedMemory.h - Shared memory of a block ----------------*- C++ -*-===//
//
// Each granule of 4 bytes stores its last writer and the readers since.
// Accesses of two warps are ordered by barriers (vector clocks over warps),
// those of two lanes of a warp only by bar.warp.sync or a barrier: PTX defines
// no other order.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_SHAREDMEMORY_H
#define MOE_TEST_SOFTGPU_SHAREDMEMORY_H

#include "test/softgpu/Finding.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace softgpu {

class SharedMemory {
public:
  using Clocks = std::array<uint32_t, 32>;
  struct Who { ///< The lane that makes the access.
    int warp, lane;
    const Clocks &clocks;
    const Clocks &fences;  ///< Proxy fences that the lane's warp knows of.
    bool isStrong = false; ///< Whether the access is atomic or volatile.
  };
  struct Conflict {
    FindingKind kind;
    std::string what;
  };

  void reset(uint64_t bytes, bool isChecked);
  uint8_t *data() { return bytes_.data(); }
  uint64_t size() const { return bytes_.size(); }

  std::optional<Conflict> read(uint64_t offset, uint64_t bytes, const Who &who);
  std::optional<Conflict> write(uint64_t offset, uint64_t bytes,
                                const Who &who);
  /// Called when a cp.async is issued, and when its bytes are visible to the
  /// thread that waited.
  std::optional<Conflict> issueCopy(uint64_t offset, uint64_t bytes,
                                    const Who &who);
  void landCopy(uint64_t offset, uint64_t bytes, const Who &who);
  /// A thread has waited for a bulk copy, whose writer is kProxyWarp.
  void landBulk(uint64_t offset, uint64_t bytes);
  /// A wgmma of the warp reads the granule at `offset` from now on, through the
  /// async proxy; endProduct() says that the warp has waited for it.
  std::optional<Conflict> readForProduct(uint64_t offset, const Who &who);
  void endProduct(uint32_t granule, const Who &who);

  uint32_t barrierEpoch = 0; ///< Number of barriers of the whole block so far.
  /// Clocks of all warps at the last barrier of the whole block.
  Clocks atBarrier{};

  /// The place of the async proxy among the clocks of warps. A block that bulk
  /// copies write to has fewer warps.
  static constexpr int kProxyWarp = 31;

private:
  struct Access {
    uint32_t clock = 0;
    uint8_t warp = 0, lane = 0;
    uint8_t bytes = 0; ///< Bit i: byte i of the granule was accessed; 0: none.
    bool isStrong = false;
  };
  struct Granule {
    Access writer, reader;
    uint32_t readerWarps = 0, readerEpoch = 0;
    uint8_t written = 0, pending = 0; ///< One bit per byte.
    uint16_t products = 0; ///< Number of wgmma in flight that read the granule.
    /// Number of the writer's proxy fences before its write.
    uint32_t fence = 0;
    /// The block to which the contents belong; see granuleOf().
    uint64_t block = 0;
  };
  /// Returns the granule of `offset`, emptied first if it is an earlier
  /// block's: emptying all when a block starts took a tenth of small kernels'
  /// time.
  Granule &granuleOf(uint64_t offset) {
    Granule &granule = granules_[offset >> 2];
    if (granule.block != block_) {
      granule = {};
      granule.block = block_;
    }
    return granule;
  }
  /// Calls body(granule, touched bytes) for every granule of a range.
  template <class F> void eachGranule(uint64_t offset, uint64_t bytes, F body) {
    for (uint64_t end = offset + bytes; offset < end;) {
      uint32_t from = offset & 3;
      uint32_t count = uint32_t(std::min<uint64_t>(4 - from, end - offset));
      body(granuleOf(offset), uint8_t(((1u << count) - 1) << from));
      offset += count;
    }
  }
  static bool isOrdered(const Access &before, const Who &who);

  std::vector<uint8_t> bytes_;
  std::vector<Granule> granules_;
  uint64_t block_ = 0; ///< Number of blocks so far.
};

/// `to` learns what `from` knows.
inline void joinClocks(SharedMemory::Clocks &to,
                       const SharedMemory::Clocks &from) {
  for (size_t i = 0; i < to.size(); ++i)
    to[i] = std::max(to[i], from[i]);
}

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_SHAREDMEMORY_H
