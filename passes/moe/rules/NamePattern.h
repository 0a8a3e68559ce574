//===- NamePattern.h - Regular expressions over names -----------*- C++ -*-===//

#ifndef MOE_PASSES_MOE_RULES_NAMEPATTERN_H
#define MOE_PASSES_MOE_RULES_NAMEPATTERN_H

#include "llvm/ADT/StringRef.h"

#include <memory>
#include <optional>
#include <string>

namespace mlir::moe {

/// A user's regular expression, searched anywhere in a name. The cost of a
/// match is bounded.
class NamePattern {
public:
  enum class Dialect {
    EcmaScript, ///< The syntax of std::regex and llama.cpp.
    Perl,       ///< The syntax shared with Python, with look-around.
  };

  /// Returns null and sets `error` if `text` is not a valid pattern.
  static std::optional<NamePattern> create(llvm::StringRef text,
                                           Dialect dialect, std::string &error);

  enum class Found { No, Yes, TooCostly };
  Found search(llvm::StringRef name) const;

private:
  std::shared_ptr<void> code;
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_RULES_NAMEPATTERN_H
