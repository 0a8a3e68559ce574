//===- PlacedRules.h - A placement as rules to edit -------------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_PLACEDRULES_H
#define MOE_COMPILER_DRIVER_PLACEDRULES_H

#include "mlir/IR/BuiltinOps.h"
#include "runtime/base/InputTexts.h"

#include <string>
#include <vector>

namespace moec {

/// The devices of a placed module as rules of --place, a line each below one
/// that says what they are; the rules put every op where it is. Layers that are
/// alike share a rule.
std::string placedRules(mlir::ModuleOp module);

/// Rules with each "@FILE" replaced by those of its lines; what follows a "#"
/// at the beginning of a line is a comment. The files are read through `texts`.
moert::StatusOr<std::vector<std::string>>
readRules(const std::vector<std::string> &rules, moert::InputTexts &texts);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_PLACEDRULES_H
