//===- Flow.h - Barriers of a warp and of a block ---------------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_FLOW_H
#define MOE_TEST_SOFTGPU_FLOW_H

#include "test/softgpu/Warp.h"

namespace softgpu {

/// Executes bar.warp.sync: orders the lanes' memory accesses.
void syncWarp(Warp &warp, const Op &op, Mask mask);

// Op::kind of barriers: sync, arrive, red; << 2: popc, and, or; 16: negated.
inline constexpr int kArrive = 1, kReduce = 2;

/// The lanes of `mask` arrive at a barrier. Returns whether they wait there.
bool arriveAtBarrier(Warp &warp, const Op &op, Mask mask);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_FLOW_H
