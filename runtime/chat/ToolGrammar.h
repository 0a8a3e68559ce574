//===- ToolGrammar.h - Grammars of replies that call tools ------*- C++ -*-===//

#ifndef MOE_RUNTIME_CHAT_TOOLGRAMMAR_H
#define MOE_RUNTIME_CHAT_TOOLGRAMMAR_H

#include "runtime/base/Status.h"
#include "runtime/chat/ToolFormat.h"
#include "runtime/constrain/Automaton.h"

#include <memory>
#include <vector>

namespace moert {

class Tokenizer;

struct ToolGrammarOptions {
  /// The reply is calls and nothing else. Otherwise it may be text, in which
  /// calls are held to their tools' schemas from their opening mark on.
  bool isRequired = false;
  bool isParallel = true; ///< More than one call.
  /// What a reply that calls no tool is, where calls are not required. Null:
  /// any text, in which calls may be.
  const Grammar *answer = nullptr;
};

/// The grammar of a reply in the form `format`. Marks that are control tokens
/// are these tokens (TokenTrie.h), not their names. Fails with Usage, naming
/// the tool and the place in its schema, if a schema cannot be held to. Where
/// calls are not required, the arguments of a tool that is not strict are then
/// any object. Null if nothing can be held: no mark begins a call.
StatusOr<std::shared_ptr<const Automaton>>
toolGrammar(const ToolFormat &format, const std::vector<Tool> &tools,
            const Tokenizer &tokenizer, const ToolGrammarOptions &options);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_TOOLGRAMMAR_H
