//===- Reconverge.h - Where lanes that parted meet again --------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_RECONVERGE_H
#define MOE_TEST_SOFTGPU_RECONVERGE_H

#include "test/softgpu/Program.h"

namespace softgpu {

/// Gives every op its Op::turn: of a warp's groups the one whose op has the
/// lowest runs, so that what lies between a branch and its immediate
/// post-dominator runs before that, wherever a compiler has put it.
void setTurns(Kernel &kernel);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_RECONVERGE_H
