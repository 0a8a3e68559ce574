//===- ReplyGrammar.h - What a whole reply may be ---------------*- C++ -*-===//
//
// The grammar of a reply from its first token on, as its model speaks
// (Speech.h): reasoning, which is free and may always end, then the answer and
// calls of tools. It is over bytes and control tokens (controlBytes() of
// StreamDecoder.h), so that a token may be the end of one part and the
// beginning of the next.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CHAT_REPLYGRAMMAR_H
#define MOE_RUNTIME_CHAT_REPLYGRAMMAR_H

#include "runtime/base/Deadline.h"
#include "runtime/base/Status.h"
#include "runtime/chat/Speech.h"
#include "runtime/constrain/Automaton.h"

#include <memory>
#include <string_view>
#include <vector>

namespace moert {

/// The requirements for a reply.
struct ReplyWish {
  const Speech *speech = &plainSpeech();
  /// The text before the reply: it may have begun the reasoning, or a message.
  std::string_view prompt = {};
  /// The tools that may be called. Null: none.
  const std::vector<Tool> *tools = nullptr;
  /// The forms of calls: those of the speech, or that of GenericTools.h.
  const std::vector<ToolFormat> *forms = nullptr;
  bool mustCall = false;  ///< Whether the reply consists of calls only.
  bool isParallel = true; ///< Whether a reply may have more than one call.
  /// The grammar of the answer, if the reply is one. Null: any text.
  const Grammar *answer = nullptr;
  /// The text on which `answer` depends, for GrammarCache; "": it is not known.
  std::string_view answerKey = {};
  /// Deadline after which compiling fails.
  Deadline deadline = {};
};

/// The grammar of a reply. Fails with Usage, naming the tool and the place in
/// its schema, if a schema cannot be held to; where calls are not required, the
/// arguments of a tool that is not strict are then any object. Fails with Usage
/// too once the deadline has passed. Null if nothing is to be held.
StatusOr<std::shared_ptr<const Automaton>> replyGrammar(const ReplyWish &wish);

/// The grammar of a reply to `prompt` whose answer follows `answer`.
StatusOr<std::shared_ptr<const Automaton>>
answerGrammar(const Grammar &answer, const Speech &speech,
              std::string_view prompt);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_REPLYGRAMMAR_H
