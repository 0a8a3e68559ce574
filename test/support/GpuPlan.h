//===- GpuPlan.h - A hand-made plan on a GPU --------------------*- C++ -*-===//
//
// What plan-launches and moec's serialiser do, for plans that tests build.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SUPPORT_GPUPLAN_H
#define MOE_TEST_SUPPORT_GPUPLAN_H

#include "compiler/Cuda/KernelCompiler.h"
#include "test/support/PlanBuilder.h"

namespace moetest {

/// Makes device number `device` of `plan` a GPU of `arch`. Its instructions
/// become those of kernels of CUDA, of float gemms as files have them. Of a
/// plan on two devices (splitPlan()) it does all copies, in queue number
/// `copyQueue`; if both are GPUs, each those to its memory, in its first queue.
void makeGpu(fb::PlanT &plan, uint32_t device, int arch,
             uint32_t copyQueue = 0);

/// Gives instructions of GPUs their launches, and the plan their modules with
/// images for `archs`. What does not compile throws. `fused`: neighbours that
/// nobody is waited for or told between are one launch where they can be.
void addLaunches(fb::PlanT &plan, moec::KernelCompiler &compiler,
                 const std::vector<int> &archs, bool fused = false);

} // namespace moetest

#endif // MOE_TEST_SUPPORT_GPUPLAN_H
