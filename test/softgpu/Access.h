//===- Access.h - A warp's request to memory --------------------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_ACCESS_H
#define MOE_TEST_SOFTGPU_ACCESS_H

#include "test/softgpu/Warp.h"

namespace softgpu {

enum class AccessKind : uint8_t { Read, Write, Atomic };

/// Where the bytes of each lane's access are, after every check that is on: the
/// lane may read or write `bytes` there now.
struct Request {
  uint64_t address[kLanes]; ///< In `space`, or generic.
  uint8_t *host[kLanes];
};

/// The lanes' addresses: op's address register is its source `source`.
void addressesOf(Warp &warp, const Op &op, int source, uint64_t *out);

/// Fills `host` for `address` in op's space, checks and counts.
void resolve(Warp &warp, const Op &op, Mask mask, uint32_t bytes,
             AccessKind kind, Request &request);

/// Lanes of a store that write different values to one address; reports them.
/// Returns the lanes without those that repeat an earlier lane's write.
Mask checkConflicts(Warp &warp, const Op &op, Mask mask, uint32_t bytes,
                    const uint64_t *address, const uint8_t *values);

/// Distinct bytes and 32-byte sectors of a request, added to `traffic`.
void countSectors(Counters::Traffic &traffic, const uint64_t *address,
                  Mask mask, uint32_t bytes);
/// Passes through the 32 banks that lanes need for `bytes` each.
void countBanks(Counters::Banks &banks, const uint64_t *address, Mask mask,
                uint32_t bytes);

inline SharedMemory::Who whoIs(const Warp &warp, int lane,
                               bool isStrong = false) {
  return {warp.index, lane, warp.clocks, isStrong};
}

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_ACCESS_H
