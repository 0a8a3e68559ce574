//===- RuleFile.h - The rules of a YAML file --------------------*- C++ -*-===//
//
// What a file of KTransformers' rules says, before it is applied to a model
// (ModuleRules.h).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_DRIVER_RULEFILE_H
#define MOE_COMPILER_DRIVER_RULEFILE_H

#include "compiler/Driver/ModuleNames.h"
#include "compiler/Machine/Targets/Target.h"
#include "passes/moe/rules/NamePattern.h"
#include "runtime/base/InputTexts.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace moec {

/// Notes about lines of a file. What holds for several lines is said once.
class LineNotes {
public:
  void add(size_t line, const std::string &what);
  /// Returns "PATH:LINE: WHAT" of each note, with its other lines at the end.
  std::vector<std::string> texts(const std::string &path) const;

private:
  struct Note {
    std::string what;
    std::vector<size_t> lines;
  };
  std::vector<Note> notes_;
};

/// A device of the target, and how the file calls it.
struct NamedDevice {
  std::string name, word;
};

struct FileRule {
  size_t line = 0;
  std::optional<mlir::moe::NamePattern> name;
  std::string nameText;
  std::string className; ///< Name of the module's class; "": any class.
  /// Kind of the class; absent for any class and for an unknown one.
  std::optional<ModuleKind> kind;
  /// "" lets placement choose.
  NamedDevice device, prefillDevice;
  bool recursive = true;
};

struct RuleFile {
  struct Transfer {
    std::string device;
    size_t line;
  };

  std::vector<FileRule> rules;
  /// Devices of the layers that no rule places; the key is the first layer of a
  /// range.
  std::map<int64_t, Transfer> transfers;
  /// Tokens of a prompt from which on layers are to be streamed to a GPU, and
  /// where that is; 0: not said.
  int64_t streamFrom = 0;
  size_t streamLine = 0;
  LineNotes notes; ///< Parts of the rule that have no effect.
};

/// The key of RuleFile::streamFrom, as KTransformers spells it.
inline constexpr char kStreamKey[] = "per_layer_prefill_intput_threshold";

/// Reads the file at `path` through `texts`. Fails with InvalidFile, file and
/// line for an invalid rule, a misspelt key, a device that `target` does not
/// have, and an operator on a device that cannot run it.
moert::StatusOr<RuleFile> readRuleFile(moert::InputTexts &texts,
                                       const std::string &path,
                                       const TargetDesc &target);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_RULEFILE_H
