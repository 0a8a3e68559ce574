//===- GpuPlan.h - Converts hand-made plans to GPU plans --------*- C++ -*-===//
//
// Does for plans that tests build what plan-launches and moec's serialiser do.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SUPPORT_GPUPLAN_H
#define MOE_TEST_SUPPORT_GPUPLAN_H

#include "compiler/Cuda/KernelCompiler.h"
#include "test/support/PlanBuilder.h"

namespace moetest {

/// Makes device `device` of `plan` a GPU of `arch`. Its instructions become
/// CUDA kernels, with float gemms in the file's layout. In a plan for two
/// devices (splitPlan()) it does all copies, in queue `copyQueue`; if both are
/// GPUs, each does those to its memory, in its first queue.
void makeGpu(fb::PlanT &plan, uint32_t device, int arch,
             uint32_t copyQueue = 0);

/// Gives instructions of GPUs their launches, and the plan its modules with
/// images for `archs`. Throws if something does not compile. `fused`:
/// neighbours without a wait or signal between them become one launch where
/// possible.
void addLaunches(fb::PlanT &plan, moec::KernelCompiler &compiler,
                 const std::vector<int> &archs, bool fused = false);

} // namespace moetest

#endif // MOE_TEST_SUPPORT_GPUPLAN_H
