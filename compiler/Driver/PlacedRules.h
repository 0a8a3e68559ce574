//===- PlacedRules.h - Prints a placement as rules --------------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_PLACEDRULES_H
#define MOE_COMPILER_DRIVER_PLACEDRULES_H

#include "mlir/IR/BuiltinOps.h"
#include "runtime/base/InputTexts.h"

#include <string>
#include <vector>

namespace moec {

/// Returns the devices of a placed module as rules of --place, one per line,
/// below a header line. The rules put every op where it is. Layers that are
/// alike share a rule.
std::string placedRules(mlir::ModuleOp module);

/// Replaces each "@FILE" in a list of rules by the rules in that file, which
/// has one per line; lines that begin with "#" are comments. Reads files
/// through `texts`.
moert::StatusOr<std::vector<std::string>>
readRules(const std::vector<std::string> &rules, moert::InputTexts &texts);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_PLACEDRULES_H
