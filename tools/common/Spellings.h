//===- Spellings.h - Option names of other tools ----------------*- C++ -*-===//

#ifndef MOE_TOOLS_COMMON_SPELLINGS_H
#define MOE_TOOLS_COMMON_SPELLINGS_H

#include "runtime/base/Status.h"
#include "tools/common/CliFwd.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moetool {

/// The spelling of an option in llama.cpp's tools, or a common one, and our
/// option.
struct Spelling {
  std::string_view name; ///< "-ngl"
  /// Our words for it: an option such as "--n-gpu-layers", possibly with a
  /// value, as in "--emit rules". kPositional if the value is the command's
  /// positional argument; kDefault if our tools do this anyway.
  std::string_view ours;
  /// What to use instead if no option of ours means the same.
  std::string_view answer = "";
};

inline constexpr std::string_view kPositional = "", kDefault = "-";

/// Returns `words`, the arguments of `command`, with our options in place of
/// spellings that the command does not have itself. A word after "--" that
/// looks like an option is made a path. Fails with Usage, and the answer, for a
/// spelling without an equivalent.
moert::StatusOr<std::vector<std::string>>
withOurSpellings(const CLI::App &command, std::span<const std::string> words,
                 std::span<const Spelling> spellings);

} // namespace moetool

#endif // MOE_TOOLS_COMMON_SPELLINGS_H
