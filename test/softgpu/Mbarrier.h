//===- Mbarrier.h - Waits for an mbarrier -----------------------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_MBARRIER_H
#define MOE_TEST_SOFTGPU_MBARRIER_H

#include "test/softgpu/Warp.h"

namespace softgpu {

/// mbarrier.try_wait: returns whether lanes may go on. Then their predicate
/// says whether the phase is complete.
bool waitForPhase(Warp &warp, const Op &op, Mask mask);

/// Returns what the phase lacks for which lanes wait at `op`.
std::string describePhase(Warp &warp, const Op &op);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_MBARRIER_H
