//===- FreeText.h - Grammars of text without given marks --------*- C++ -*-===//

#ifndef MOE_RUNTIME_CHAT_FREETEXT_H
#define MOE_RUNTIME_CHAT_FREETEXT_H

#include "runtime/constrain/Grammar.h"

#include <string_view>
#include <vector>

namespace moert {

struct FreeTextOptions {
  /// Control tokens may be in the text, but for those with which marks begin.
  bool hasControls = false;
};

/// Any text in which none of the marks is. Marks may begin with control tokens
/// (controlBytes() of StreamDecoder.h). `name` names its rules, which must not
/// exist.
ExprId textWithout(Grammar &grammar, const std::string &name,
                   const std::vector<std::string_view> &marks,
                   const FreeTextOptions &options = {});

} // namespace moert

#endif // MOE_RUNTIME_CHAT_FREETEXT_H
