//===- FreeText.h - Grammars of text without given marks --------*- C++ -*-===//

#ifndef MOE_RUNTIME_CHAT_FREETEXT_H
#define MOE_RUNTIME_CHAT_FREETEXT_H

#include "runtime/constrain/Grammar.h"

#include <string_view>
#include <vector>

namespace moert {

struct FreeTextOptions {
  /// The text may contain control tokens, except those that complete the
  /// beginning of a mark up to its first control token.
  bool hasControls = false;
};

/// Returns an expression for every text that contains none of the marks. Marks
/// may have control tokens (controlBytes() of StreamDecoder.h): up to the first
/// of them, they are marks already. `name` is the beginning of its rules'
/// names, which must be new.
ExprId textWithout(Grammar &grammar, const std::string &name,
                   const std::vector<std::string_view> &marks,
                   const FreeTextOptions &options = {});

} // namespace moert

#endif // MOE_RUNTIME_CHAT_FREETEXT_H
