//===- Recompile.h - What mends a failure: to compile again -----*- C++ -*-===//

#ifndef MOE_RUNTIME_PLAN_RECOMPILE_H
#define MOE_RUNTIME_PLAN_RECOMPILE_H

#include "runtime/base/Remedy.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

namespace fb {
struct Plan;
} // namespace fb

/// Returns the command that compiles a plan again with the options that shaped
/// it (Plan.options), apart from `changes`. `planPath` is the path by which the
/// plan was opened; `modelPaths` are the user's --model. `plan` only has to
/// have passed flatbuffers' own verification.
Remedy recompile(Suggestion suggestion, const fb::Plan &plan,
                 std::string_view planPath,
                 std::vector<OptionChange> changes = {},
                 std::span<const std::string> modelPaths = {});

/// Adds advice to a `failure` about a context that is too short for `tokens`
/// tokens: a larger context or, if the model was trained for fewer, a shorter
/// text.
Status adviseContext(Status failure, const fb::Plan &plan,
                     std::string_view planPath, int64_t tokens,
                     std::span<const std::string> modelPaths = {});

/// Adds advice to a `failure` about a plan that does not fit in `available`
/// bytes even if its `weights` are paged. `rest` is the size of everything but
/// weights and KV cache. If the weights leave room for a useful context, they
/// are assumed to stay in memory.
Status adviseMemory(Status failure, const fb::Plan &plan,
                    std::string_view planPath, uint64_t rest, uint64_t weights,
                    uint64_t available,
                    std::span<const std::string> modelPaths = {});

/// Returns the command that compiles a model for this machine into the current
/// folder, for users who gave a model instead of a plan.
Remedy compileFirst(const std::string &modelPath);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_RECOMPILE_H
