//===- Access.h - Memory requests of a warp ---------------------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_ACCESS_H
#define MOE_TEST_SOFTGPU_ACCESS_H

#include "test/softgpu/Warp.h"

namespace softgpu {

enum class AccessKind : uint8_t { Read, Write, Atomic };

/// The memory of each lane's access after all enabled checks: the lane may read
/// or write `bytes` bytes at `host`.
struct Request {
  uint64_t address[kLanes]; ///< Address in the op's space, or a generic one.
  uint8_t *host[kLanes];
  /// Whether a lane's memory is mapped; set only by checks.
  bool isOfHost = false;
};

/// Reads the lanes' addresses; op's address register is its source `source`.
void addressesOf(Warp &warp, const Op &op, int source, uint64_t *out);

/// Fills `host` for `address` in op's space, runs the checks and counts.
void resolve(Warp &warp, const Op &op, Mask mask, uint32_t bytes,
             AccessKind kind, Request &request);

/// Reports lanes of a store that write different values to one address. Returns
/// the lanes without those that repeat an earlier lane's write.
Mask checkConflicts(Warp &warp, const Op &op, Mask mask, uint32_t bytes,
                    const uint64_t *address, const uint8_t *values);

/// Adds the request and its distinct bytes and 32-byte sectors to `traffic`.
void countSectors(Counters::Traffic &traffic, const uint64_t *address,
                  Mask mask, uint32_t bytes);
/// Counts the wavefronts (passes through the 32 banks) that the lanes need for
/// `bytes` bytes each.
void countBanks(Counters::Banks &banks, const uint64_t *address, Mask mask,
                uint32_t bytes);

inline SharedMemory::Who whoIs(const Warp &warp, int lane,
                               bool isStrong = false) {
  return {warp.index, lane, warp.clocks, warp.fences, isStrong};
}

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_ACCESS_H
