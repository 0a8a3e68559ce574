//===- Spellings.h - Other tools' names of our options ----------*- C++ -*-===//

#ifndef MOE_TOOLS_COMMON_SPELLINGS_H
#define MOE_TOOLS_COMMON_SPELLINGS_H

#include "runtime/base/Status.h"

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moetool {

/// An option as llama.cpp's tools, or habit, spell it, and what it is here.
struct Spelling {
  std::string_view name; ///< "-ngl"
  /// Our words for it: an option, as in "--n-gpu-layers", which may have its
  /// value, as in "--emit rules". kPositional where the value is the command's
  /// positional argument, kDefault where our tools do that anyway.
  std::string_view ours;
  /// What there is instead where nothing here means the same.
  std::string_view answer = "";
};

inline constexpr std::string_view kPositional = "", kDefault = "-";

/// `words`, the arguments of `command`, with our options in place of spellings
/// that the command does not have itself. A word after "--" that looks like an
/// option is made a path. Fails with Usage, and the answer, where a spelling
/// means nothing here.
moert::StatusOr<std::vector<std::string>>
withOurSpellings(const CLI::App &command, std::span<const std::string> words,
                 std::span<const Spelling> spellings);

} // namespace moetool

#endif // MOE_TOOLS_COMMON_SPELLINGS_H
