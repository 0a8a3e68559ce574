//===- CudaLinks.h - Copies between the GPUs of a plan ----------*- C++ -*-===//
//
// In a plan, the receiving GPU copies from the memory of the other. But it
// cannot access that memory: consumer boards cannot, and some that claim to can
// return wrong bytes. So the other GPU sends the data to pages of the host that
// both can access, after the instruction that wrote it. The plan makes the copy
// wait for that instruction, and this now includes the sending.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDALINKS_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDALINKS_H

#include "runtime/device/HostMemory.h"
#include "runtime/plan/Plan.h"
#include "runtime/schema/plan_generated.h"

#include <memory>
#include <span>
#include <vector>

namespace moert {

struct CudaLink {
  const fb::Phase *phase = nullptr;
  /// Instructions of the phase: the copy, and the one after which the data is
  /// sent.
  uint32_t copy = 0, writer = 0;
  uint32_t from = 0, to = 0; ///< Device numbers.
  /// Offsets in the arena of `from` and in the pages.
  uint64_t source = 0, offset = 0;
  uint64_t bytes = 0; ///< Size in the phase's largest step.
};

/// All links of a plan. Each link has its own bytes and is used once per step,
/// and steps do not overlap, so nothing is overwritten before it is read.
class CudaLinks {
public:
  /// Leaves out copies of data that no instruction of the other GPU wrote, or
  /// only a part of it.
  static StatusOr<std::shared_ptr<const CudaLinks>> create(const Plan &plan);

  std::span<const CudaLink> all() const { return links_; }
  const HostMemory &pages() const { return pages_; }

private:
  std::vector<CudaLink> links_;
  HostMemory pages_;
};

/// Returns the bytes of these pages, without creating links.
uint64_t cudaLinkBytes(const fb::Plan &plan);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDALINKS_H
