//===- RouterProfile.h - What moert profile-router measured -----*- C++ -*-===//
//
// `moert profile-router` measures which experts of each layer a text uses, and
// how much of a token's gate mass its heaviest expert has, its second, and so
// on. Experts that are used most are worth more in a GPU's memory than others
// (passes/moe/placement/PlacementSearch.h). Where the lightest of a token have
// next to no mass, a layer can do without them: it uses the fewest experts that
// leave out at most a given part of it.
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
  /// Experts per token by layer, 0 for a layer that has no router; none loses
  /// more of its gate mass than was said.
  std::vector<int64_t> counts;
  /// By layer: of each expert the part of tokens that choose it.
  std::map<int64_t, std::vector<float>> frequencies;
};

/// Of `module`, a model's graph, as the profile in `path`, read through
/// `texts`, has it. Fails with Usage for a profile of another model, with
/// InvalidFile, file, line and column for one that is none.
moert::StatusOr<RouterProfile> readRouterProfile(moert::InputTexts &texts,
                                                 const std::string &path,
                                                 double mostDropped,
                                                 mlir::ModuleOp module);

/// Notes them on each layer's experts (dialects/moe/ExpertFrequencies.h).
void setFrequencies(const RouterProfile &profile, mlir::ModuleOp module);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_ROUTERPROFILE_H
