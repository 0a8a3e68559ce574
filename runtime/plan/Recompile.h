//===- Recompile.h - The command that makes a plan again --------*- C++ -*-===//

#ifndef MOE_RUNTIME_PLAN_RECOMPILE_H
#define MOE_RUNTIME_PLAN_RECOMPILE_H

#include "runtime/base/ShellCommand.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace moert {

namespace fb {
struct Plan;
} // namespace fb

/// An option of moec compile that a suggestion sets anew.
struct OptionChange {
  std::string_view name; ///< "--ctx"
  std::string value;
};

/// The end of a message: the suggestion's text, and a line with the command
/// that makes a plan again, with the options that shaped it (Plan.options) but
/// for `changes`, and without those at their defaults. It works from the
/// current folder: `planPath` is how the plan was opened, `modelPaths` are the
/// user's
/// --model. Where the model file is neither given nor where the plan says,
/// MODEL stands for it. Where a file that the options name is gone, or was a
/// stream, it says so in place of the line. `plan` needs no verification beyond
/// flatbuffers'.
std::string recompileHint(Suggestion suggestion, const fb::Plan &plan,
                          std::string_view planPath,
                          std::span<const OptionChange> changes = {},
                          std::span<const std::string> modelPaths = {});

/// The end of a message about a context that does not hold `tokens`: what to do
/// and the line for it, or that the model was trained for fewer.
std::string contextHint(const fb::Plan &plan, std::string_view planPath,
                        int64_t tokens,
                        std::span<const std::string> modelPaths = {});

/// The end of a message about a plan that does not fit `available` bytes even
/// when its `weights` are paged: what to do, and the line for it. `rest` is
/// what all but weights and KV cache takes. Weights that leave room for a
/// context that is worth it stay in memory.
std::string memoryHint(const fb::Plan &plan, std::string_view planPath,
                       uint64_t rest, uint64_t weights, uint64_t available,
                       std::span<const std::string> modelPaths = {});

/// The end of a message about a model that was given as a plan: the command
/// that compiles it for this machine, into the current folder.
std::string compileHint(const std::string &modelPath);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_RECOMPILE_H
