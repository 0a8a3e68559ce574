//===- PlanText.h - What of a text MLIR's parser may see --------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_PLANTEXT_H
#define MOE_COMPILER_DRIVER_PLANTEXT_H

#include "runtime/base/Status.h"

#include <string_view>

namespace moec {

/// Refuses text on which MLIR's parser would run out of stack, as it calls
/// itself without a bound: brackets nested more than 256 deep, and affine maps,
/// which plans have none of; and bytecode, whose reader trusts it. InvalidFile,
/// "name:line:column: ...".
moert::Status checkPlanText(std::string_view name, std::string_view text);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_PLANTEXT_H
