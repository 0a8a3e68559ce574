//===- KeptPlans.h - Plans of models that moert compiled --------*- C++ -*-===//
//
// moert compiles a model that is given in place of a plan, and keeps the plan
// in the user's cache folder. Beside PLAN.fb lies PLAN.json, which says what it
// was made of.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TOOLS_MOERT_KEPTPLANS_H
#define MOE_TOOLS_MOERT_KEPTPLANS_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace moert {

/// What a plan depends on. Two plans with the same origin differ in contexts
/// and sequences alone.
struct PlanOrigin {
  std::string model; ///< Full path of the model file.
  uint64_t modelBytes = 0;
  int64_t modelTime = 0; ///< Time of the file's last change.
  std::string machine;  ///< Description of this machine's CPU, memory and GPUs.
  std::string compiler; ///< Version, size and time of moec.
  std::vector<std::string> options; ///< Words of moec's command line.
  std::string optionsKey;           ///< Result of CompileFlags::key().

  bool operator==(const PlanOrigin &) const = default;
};

struct KeptPlan {
  std::string path; ///< Path of the plan.
  PlanOrigin origin;
  int32_t sequences = 1;
  /// Whether it was made for no context in particular.
  bool isLadder = false;
  /// Contexts of the plan's rungs, in ascending order.
  std::vector<int64_t> contexts;
  uint64_t bytes = 0; ///< Bytes of all files of the plan.
  /// The reason why the plan will not be used again: "the model is gone"; "" if
  /// it may be.
  std::string stale;
};

/// Returns what a plan of this model would depend on here and now. Fails with
/// Io if the file cannot be read.
StatusOr<PlanOrigin> originOf(const std::string &model);

/// Returns the folder of kept plans, which may not exist. Fails with Io if the
/// environment names neither a home nor a cache folder.
StatusOr<std::string> keptPlansFolder();

/// Returns all kept plans, by model and contexts.
StatusOr<std::vector<KeptPlan>> keptPlans();

/// Returns the path of the smallest kept plan that holds `sequences` texts of
/// `context` tokens (0: as many as fit this machine) and can run here; "" if
/// there is none.
StatusOr<std::string> findKept(const PlanOrigin &origin, int32_t sequences,
                               int64_t context);

/// Returns the path for a new plan of these properties.
StatusOr<std::string> pathToKeep(const PlanOrigin &origin, int32_t sequences,
                                 int64_t context);

/// Notes what the plan at `path` was made of, and removes kept plans that an
/// older moec made of the same model and options.
Status keep(const std::string &path, PlanOrigin origin, int32_t sequences,
            bool isLadder);

/// Removes a plan with all its files.
Status removeKept(const KeptPlan &plan);

} // namespace moert

#endif // MOE_TOOLS_MOERT_KEPTPLANS_H
