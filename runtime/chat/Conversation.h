//===- Conversation.h - Messages, prompts and replies in turn ---*- C++ -*-===//
//
// A conversation of several turns: the caller adds a message, prompt() returns
// the text and tokens that the model continues, and addReply() adds the reply.
// The tokens of a reply are kept as the model generated them, because encoding
// its text again might give other tokens, and the KV cache of the previous
// prompt would be useless. This class knows no engine; keepShared() of
// Generate.h rewinds a sequence to its common prefix with the next prompt.
//
// A server that receives all messages with every request needs a ChatFormat,
// but no Conversation, unless it keeps state for each client.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CHAT_CONVERSATION_H
#define MOE_RUNTIME_CHAT_CONVERSATION_H

#include "runtime/chat/ChatFormat.h"
#include "runtime/chat/Messages.h"
#include "runtime/chat/ReplyStream.h"

namespace moert {

class Conversation {
public:
  explicit Conversation(ChatFormat format, Messages messages = {},
                        ChatOptions options = {})
      : format_(std::move(format)), messages_(std::move(messages)),
        options_(options) {}

  Messages &messages() { return messages_; }
  const Messages &messages() const { return messages_; }
  /// Changes take effect with the next prompt.
  ChatOptions &options() { return options_; }

  /// Returns the prompt whose continuation is the answer to the last message.
  StatusOr<ChatPrompt> prompt() const;

  /// Returns a stream for the reply to `prompt`.
  StatusOr<ReplyStream> reply(const ChatPrompt &prompt,
                              ReplyOptions options = {}) const {
    options.speech = format_.speech();
    return ReplyStream::create(format_.tokenizer(), prompt.text,
                               std::move(options));
  }

  /// Adds the reply to `prompt` as the last message.
  void addReply(const ChatPrompt &prompt, const Reply &reply);

private:
  ChatFormat format_;
  Messages messages_;
  ChatOptions options_;
  /// The last prompt and its reply: the exact text, and the exact tokens.
  std::string progressText_;
  std::vector<int32_t> heardTokens_;
};

} // namespace moert

#endif // MOE_RUNTIME_CHAT_CONVERSATION_H
