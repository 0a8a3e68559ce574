//===- GrammarText.h - Reads grammar texts ----------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_GRAMMARTEXT_H
#define MOE_RUNTIME_CONSTRAIN_GRAMMARTEXT_H

#include "runtime/base/Status.h"
#include "runtime/constrain/CharSet.h"

#include <string_view>

namespace moert {

/// The text of a grammar or a regular expression, and where its reader is.
class GrammarText {
public:
  GrammarText(std::string_view what, std::string_view text)
      : what_(what), text_(text) {}

  bool isAtEnd() const { return at_ == text_.size(); }
  size_t offset() const { return at_; }
  void seek(size_t offset) { at_ = offset; }
  std::string_view rest() const { return text_.substr(at_); }
  /// The next byte, or 0 at the end.
  char peek() const { return isAtEnd() ? '\0' : text_[at_]; }
  /// Skips `token` if it is next.
  bool take(std::string_view token);

  /// Reads one code point. Fails if the text is not UTF-8.
  StatusOr<uint32_t> codePoint();
  /// Reads `least` to `most` hexadecimal digits.
  StatusOr<uint32_t> hexDigits(int least, int most);
  /// Reads a decimal number up to `most`.
  StatusOr<int32_t> number(int32_t most);
  /// Reads {n}, {n,} or {n,m} after its brace; most is Expr::kUnbounded for the
  /// second.
  struct Count {
    int32_t least, most;
  };
  StatusOr<Count> count();

  /// Returns Usage with "what:line:column: message"; both count from 1, columns
  /// in bytes.
  Status error(std::string_view message) const;

private:
  std::string_view what_, text_;
  size_t at_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_GRAMMARTEXT_H
