//===- NamePattern.h - Regular expressions over names -----------*- C++ -*-===//

#ifndef MOE_PASSES_MOE_RULES_NAMEPATTERN_H
#define MOE_PASSES_MOE_RULES_NAMEPATTERN_H

#include "llvm/ADT/StringRef.h"

#include <memory>
#include <optional>
#include <string>

namespace mlir::moe {

/// A user's regular expression, searched anywhere in a name. What a match may
/// cost is bounded.
class NamePattern {
public:
  enum class Dialect {
    EcmaScript, ///< As std::regex and llama.cpp take it.
    Perl,       ///< What it shares with Python, look-around included.
  };

  /// Null, and `error` says why, for a pattern that is none.
  static std::optional<NamePattern> create(llvm::StringRef text,
                                           Dialect dialect, std::string &error);

  enum class Found { No, Yes, TooCostly };
  Found search(llvm::StringRef name) const;

private:
  std::shared_ptr<void> code;
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_RULES_NAMEPATTERN_H
