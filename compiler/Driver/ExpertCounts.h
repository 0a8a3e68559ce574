//===- ExpertCounts.h - Experts per token from a router profile -*- C++ -*-===//
//
// `moert profile-router` measures how much of a token's gate mass its heaviest
// expert has, its second, and so on, in each layer. Where the lightest ones
// have next to none, a layer can do without them: it uses the fewest experts
// that leave out at most a given part of the mass.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_DRIVER_EXPERTCOUNTS_H
#define MOE_COMPILER_DRIVER_EXPERTCOUNTS_H

#include "mlir/IR/BuiltinOps.h"
#include "runtime/base/Status.h"

#include <string>
#include <vector>

namespace moec {

/// Experts per token by layer, 0 for a layer that has no router, of `module`,
/// a model's graph; no layer loses more than `mostDropped` of its gate mass as
/// the profile in `path` has it. Fails with Usage for a profile of another
/// model, with InvalidFile, file, line and column for one that is none.
moert::StatusOr<std::vector<int64_t>> expertCounts(const std::string &path,
                                                   double mostDropped,
                                                   mlir::ModuleOp module);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_EXPERTCOUNTS_H
