//===- CudaLinks.h - From one GPU of a plan to another ----------*- C++ -*-===//
//
// A plan's copy from a GPU's memory to another's is made by the one that
// receives. It does not reach the other's memory: consumer boards cannot, and
// some that say they can bring wrong bytes. So the other sends what is to be
// copied to pages of the host, which both reach, behind the instruction that
// made it; who waits for that instruction, as the plan has the copy do, waits
// for the pages too.
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
  /// Of the phase: the copy, and the instruction behind which is sent.
  uint32_t copy = 0, writer = 0;
  uint32_t from = 0, to = 0;       ///< Devices.
  uint64_t source = 0, offset = 0; ///< In the arena of `from`; in the pages.
  uint64_t bytes = 0;              ///< Of the phase's largest step.
};

/// All of a plan. Each has bytes of its own, once a step, and steps do not
/// overlap: nobody overwrites what is still to be read.
class CudaLinks {
public:
  /// Leaves out copies of what no instruction of the other GPU wrote, or not
  /// as a whole.
  static StatusOr<std::shared_ptr<const CudaLinks>> create(const Plan &plan);

  std::span<const CudaLink> all() const { return links_; }
  const HostMemory &pages() const { return pages_; }

private:
  std::vector<CudaLink> links_;
  HostMemory pages_;
};

/// Of those pages, without any.
uint64_t cudaLinkBytes(const fb::Plan &plan);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDALINKS_H
