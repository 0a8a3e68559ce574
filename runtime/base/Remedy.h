//===- Remedy.h - The command that mends a failure --------------*- C++ -*-===//
//
// A Status may carry a remedy: which suggestion it is (a row of
// Suggestions.def) and what its command is made of. Libraries only fill it in;
// the tools and the C interface make the command's text of it
// (tools/common/Remedies.h).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_BASE_REMEDY_H
#define MOE_RUNTIME_BASE_REMEDY_H

#include "runtime/base/OptionInfo.h"
#include "runtime/base/Status.h"

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace moert {

/// The reason why a message suggests a command: the rows of Suggestions.def.
enum class Suggestion {
#define MOE_SUGGESTION(name, text) name,
#include "runtime/base/Suggestions.def"
};

/// The words of the message before the command; `detail` is put in place of {}.
std::string suggestionText(Suggestion suggestion, std::string_view detail = "");

/// moec compile `model`, with options in this order.
struct CompileCommand {
  struct Option {
    std::string name; ///< "--ctx"
    std::string value;
    OptionKind kind = OptionKind::Text; ///< A Flag has no value.
  };
  std::string model;
  std::vector<Option> options;
  std::string output; ///< "" leaves out -o.
};

/// An option of moec compile with the value that a remedy gives it.
struct OptionChange {
  std::string name; ///< "--ctx"
  std::string value;
};

/// moec compile with the options that shaped a plan, but for the changes. Files
/// that the plan names lie relative to the plan's folder.
struct RecompileCommand {
  /// The path by which it was opened; the new plan replaces it.
  std::string plan;
  std::string options; ///< Shell words, as the plan records them.
  std::string model;   ///< From the current folder; "" if unknown.
  /// The plan's weights file; "" if moec would choose the same name.
  std::string weights;
  std::vector<OptionChange> changes;
};

/// Any other program with its arguments.
struct OtherCommand {
  std::vector<std::string> words;
};

struct Remedy {
  Suggestion suggestion;
  std::variant<CompileCommand, RecompileCommand, OtherCommand> command;
  std::string detail = {}; ///< Replaces {} in the suggestion's text.

  std::string text() const { return suggestionText(suggestion, detail); }
};

} // namespace moert

#endif // MOE_RUNTIME_BASE_REMEDY_H
