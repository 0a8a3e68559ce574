//===- OptionInfo.h - A row of an option table ------------------*- C++ -*-===//
//
// Options of the command-line tools are rows of tables: compiler/Driver/
// Options.def has those of moec compile, tools/*/Options.def the others.
// Parsers, help, man pages, completions and suggested commands are made from
// the rows.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_BASE_OPTIONINFO_H
#define MOE_RUNTIME_BASE_OPTIONINFO_H

#include <cstdint>
#include <limits>
#include <string_view>

namespace moert {

enum class OptionKind : uint8_t {
  Flag,    ///< Has no value.
  Word,    ///< One of OptionInfo::words.
  Text,    ///< Any text.
  Path,    ///< The path of a file or folder.
  Number,  ///< A whole number from `least` to `most`, or one of `words`.
  Real,    ///< A number from `least` to `most`.
  Size,    ///< A number of bytes with its unit, such as 8GiB.
  Texts,   ///< Any text; the option may be given several times.
  Paths,   ///< A path; the option may be given several times.
  Numbers, ///< Whole numbers from `least` to `most` with commas between.
};

/// How an option of moec compile is used beyond its parser; bits of
/// OptionInfo::use.
enum OptionUse : unsigned {
  /// The option shapes the plan: the plan file records it, and commands that
  /// make the plan again have it.
  kRecorded = 1,
  /// moec plan has it, too: it affects what fits and the predicted speed.
  kPredicts = 2,
  /// The option is about the devices of one machine: commands for another
  /// machine do not have it.
  kOfMachine = 4,
  /// --emit moe, which writes the model as imported, refuses it.
  kNotForGraph = 8,
  /// The option only affects plan files: an --emit that writes text refuses it.
  kOfPlanFile = 16,
};

struct OptionInfo {
  /// "-u,--ubatch": one-letter names, then the long name, at most one of each.
  /// Without dashes: a positional argument.
  std::string_view names;
  OptionKind kind = OptionKind::Flag;
  /// For Word: "auto|pack|reference". For Number: names for numbers, as in
  /// "off=0|auto=-1", which may lie outside `least` and `most`.
  std::string_view words = "";
  double least = 0;
  double most = double(std::numeric_limits<int32_t>::max());
  std::string_view metavar = ""; ///< "N"; "" for the default of the kind.
  /// Default value shown in help if the actual default is not informative; "-"
  /// to show none.
  std::string_view shownDefault = "";
  /// Long names of options, with commas between.
  std::string_view excludes = "";
  std::string_view needs = ""; ///< Long name of an option.
  unsigned use = 0;            ///< Bits of OptionUse.
  std::string_view group = ""; ///< Heading in the help.
  bool isRequired = false;
  std::string_view help = "";
};

/// Help text of --force in all commands that write files
/// (runtime/plan/OutputRule.h).
inline constexpr std::string_view kForceHelp =
    "Let an output replace a file of another kind. Without it an output "
    "replaces only an empty file or one of the kind that it writes; a file "
    "that "
    "the command reads or that a plan needs is never replaced";

/// Returns "--ubatch" for "-u,--ubatch".
constexpr std::string_view longName(const OptionInfo &info) {
  return info.names.substr(info.names.rfind(',') + 1);
}

} // namespace moert

#endif // MOE_RUNTIME_BASE_OPTIONINFO_H
