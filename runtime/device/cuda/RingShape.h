//===- RingShape.h - Pinned memory that streamed weights pass ---*- C++ -*-===//
//
// Computed from the plan, without a GPU: how large the rings are through which
// weights are streamed (CudaRing.h).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_RINGSHAPE_H
#define MOE_RUNTIME_DEVICE_CUDA_RINGSHAPE_H

#include "runtime/schema/plan_generated.h"

#include <cstdint>
#include <map>

namespace moert {

struct RingShape {
  uint64_t slots = 0, slotBytes = 0;
  uint64_t bytes() const { return slots * slotBytes; }
};

/// The most bytes of all rings of a plan together. A ring only has to bridge
/// times in which the host is slower than the link: at 26 GB/s this is 40 ms.
inline constexpr uint64_t kMostRingBytes = uint64_t(1) << 30;
/// Bytes of a slot. At 26 GB/s its copy takes 1.3 ms, 130 times what it takes
/// to start a copy.
inline constexpr uint64_t kRingSlotBytes = uint64_t(32) << 20;

/// Returns the shape of a ring of at most `most` bytes for steps that stream
/// `streamed` bytes: slots of at most kRingSlotBytes, at least two of them, in
/// whole lines of a cache. It has no slots if `most` is less than that.
RingShape ringShape(uint64_t streamed, uint64_t most);

/// Returns the rings of device `device` of the plan, which must have passed
/// verifyTables() and verifyPhases(): one for each queue that streams weights
/// through a ring. All rings of the plan have at most `most` bytes together.
std::map<uint32_t, RingShape> ringsOf(const fb::Plan &plan, uint32_t device,
                                      uint64_t most = kMostRingBytes);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_RINGSHAPE_H
