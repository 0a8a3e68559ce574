//===- RouterProfile.h - Reads a router profile -----------------*- C++ -*-===//
//
// `moert profile-router` measures which experts of each layer a text uses, and
// how much of a token's gate mass its heaviest expert has, its second heaviest,
// and so on. Experts that are used more often gain more from GPU memory
// (passes/moe/placement/PlacementSearch.h). If a token's lightest experts have
// almost no mass, a layer can do without them: it uses the fewest experts that
// drop at most a given fraction of the mass.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_DRIVER_ROUTERPROFILE_H
#define MOE_COMPILER_DRIVER_ROUTERPROFILE_H

#include "mlir/IR/BuiltinOps.h"
#include "runtime/base/InputTexts.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace moec {

struct RouterProfile {
  /// Experts per token by layer, 0 for a layer without a router. No layer drops
  /// more of its gate mass than the given fraction.
  std::vector<int64_t> counts;
  /// For each layer, the fraction of tokens that select each expert.
  std::map<int64_t, std::vector<float>> frequencies;
};

/// Reads the profile at `path` through `texts`, for the model graph `module`.
/// `mostDropped` is the fraction of gate mass that a layer may drop. Fails with
/// Usage for a profile of another model, and with InvalidFile, file, line and
/// column for an invalid profile.
moert::StatusOr<RouterProfile> readRouterProfile(moert::InputTexts &texts,
                                                 const std::string &path,
                                                 double mostDropped,
                                                 mlir::ModuleOp module);

/// Sets the frequencies as an attribute of each layer's experts
/// (dialects/moe/ExpertFrequencies.h).
void setFrequencies(const RouterProfile &profile, mlir::ModuleOp module);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_ROUTERPROFILE_H
