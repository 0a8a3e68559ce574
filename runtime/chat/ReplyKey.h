//===- ReplyKey.h - What the grammar of a reply depends on ------*- C++ -*-===//

#ifndef MOE_RUNTIME_CHAT_REPLYKEY_H
#define MOE_RUNTIME_CHAT_REPLYKEY_H

#include "runtime/chat/ReplyGrammar.h"

#include <string>

namespace moert {

/// A text that differs between wishes whose grammars differ, for GrammarCache.
/// All members of the wish are in it, of its speech, forms and tools too,
/// except those that ReplyKey.cpp says have no effect on grammars. A member
/// that is added to one of them has to be named there, or it does not compile.
std::string replyKey(const ReplyWish &wish);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_REPLYKEY_H
