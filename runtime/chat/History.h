//===- History.h - Conversations made fit for a template --------*- C++ -*-===//
//
// Clients send conversations in the form of their interface, and templates take
// what their model was trained with. fitPrompt() rewrites one to the other:
//
//   auto prompt = fitPrompt(format, messages, options);
//
// Messages come in with the roles system, developer, user, assistant and tool,
// with texts as contents, and calls in OpenAI's form, whose arguments are
// objects or any text. What a template cannot write is written in another way,
// and no text is left out:
//
//   several instructions     joined, or, later ones, as text in the message of
//                            the user that follows or precedes them
//   calls and results        as text in the messages of assistant and user
//   calls without an id      get one; ids get the form that the template takes
//   roles out of turn        joined, or separated by a short message
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CHAT_HISTORY_H
#define MOE_RUNTIME_CHAT_HISTORY_H

#include "runtime/chat/Messages.h"
#include "runtime/chat/TemplateHabits.h"

#include <variant>

namespace moert {

class ChatFormat;
struct ChatOptions;
struct ChatPrompt;

/// The habits of a template, found when it is loaded.
class History {
public:
  explicit History(const RenderVariables &render)
      : alone_(habitsOf(render, false)), withTools_(habitsOf(render, true)) {}

  /// The habits for a conversation with these variables.
  const TemplateHabits &habits(const nlohmann::ordered_json &variables) const;

private:
  TemplateHabits alone_, withTools_;
};

/// The messages as a template of these habits takes them.
Messages fitMessages(Messages messages, const TemplateHabits &habits);

/// Calls of tools and their results as text: a call as an object between the
/// marks <tool_call> and </tool_call> in the assistant's message, what a tool
/// answered between <tool_response> and </tool_response> in the user's.
Messages withCallsAsText(Messages messages);

/// The reason why there is no prompt.
struct FitFault {
  /// The first message that the template does not take; the last one of a
  /// conversation of thousands. 0 if the time is over (ChatOptions::deadline).
  size_t message;
  Status status; ///< The error that the template raises.
};

/// The prompt of a conversation whose messages are made fit first. The cost is
/// that of one rendering, unless the template raises an exception.
std::variant<ChatPrompt, FitFault> fitPrompt(const ChatFormat &format,
                                             const Messages &messages,
                                             const ChatOptions &options);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_HISTORY_H
