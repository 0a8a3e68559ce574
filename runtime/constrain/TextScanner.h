//===- TextScanner.h - Reads texts and JSON strings -------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_TEXTSCANNER_H
#define MOE_RUNTIME_CONSTRAIN_TEXTSCANNER_H

#include "runtime/constrain/Scanner.h"
#include "runtime/constrain/TextDfa.h"

namespace moert {

/// The texts that a TextScanner reads.
struct TextRules {
  std::vector<TextCondition> conditions = {};
  int32_t least = 0; ///< Least number of code points.
  int32_t most = -1; ///< Greatest number of code points; -1: no limit.
  /// The text is written as a JSON string: in quotes, with any of the escapes
  /// that JSON has for each of its characters. Conditions and lengths are about
  /// the value.
  bool isJson = true;
  /// Such a string is in single quotes, as Python writes it: these have the
  /// escape \', and line ends may stand in it as they are.
  bool isSingleQuoted = false;
};

class TextScanner final : public Scanner {
public:
  static std::shared_ptr<const TextScanner> create(TextRules rules);

  std::unique_ptr<ScanRun> run() const override;
  bool equals(const Scanner &other) const override;
  uint64_t hash() const override { return hash_; }
  bool readsEmpty() const override { return readsEmpty_; }

  /// Whether it is certain that there is no text.
  bool isEmpty() const { return isEmpty_; }
  const TextRules &rules() const { return rules_; }
  const TextDfa &dfa() const { return dfa_; }

private:
  explicit TextScanner(TextRules rules);

  TextRules rules_;
  TextDfa dfa_; ///< Its states are listed if that is cheap and needed.
  uint64_t hash_ = 0;
  bool isEmpty_ = false, readsEmpty_ = false;
};

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_TEXTSCANNER_H
