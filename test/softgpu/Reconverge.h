//===- Reconverge.h - Reconvergence of diverged lanes -----------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_RECONVERGE_H
#define MOE_TEST_SOFTGPU_RECONVERGE_H

#include "test/softgpu/Program.h"

namespace softgpu {

/// Sets Op::turn of every op. Of a warp's groups the one whose op has the
/// lowest turn runs, so that code between a branch and its immediate
/// post-dominator runs before the latter, wherever a compiler has put it.
void orderOps(Kernel &kernel);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_RECONVERGE_H
