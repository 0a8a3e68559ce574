//===- PlanText.h - Checks text before MLIR parses it -----------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_PLANTEXT_H
#define MOE_COMPILER_DRIVER_PLANTEXT_H

#include "runtime/base/Status.h"

#include <string_view>

namespace moec {

/// Rejects text on which MLIR's parser would run out of stack, because its
/// recursion has no bound: brackets nested more than 256 deep, and affine maps,
/// which plans do not have. Also rejects bytecode, which its reader does not
/// validate. Fails with InvalidFile and "name:line:column: ...".
moert::Status checkPlanText(std::string_view name, std::string_view text);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_PLANTEXT_H
