//===- Conversation.h - Messages, prompts and replies in turn ---*- C++ -*-===//
//
// A conversation that goes on: messages are added, prompt() is what the model
// answers, its reply is added. What the model said stays the tokens that it
// said: its text alone might be cut into other tokens, and the cache of an
// earlier prompt would be of no use. Nothing here knows an engine; a sequence
// keeps what it shares with the next prompt (keepShared() of Generate.h).
//
// A server that is sent all messages with every request needs a ChatFormat and
// no Conversation, unless it remembers who it talks with.
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
  /// Takes effect with the next prompt.
  ChatOptions &options() { return options_; }

  /// What the model is to go on after, to answer the last message.
  StatusOr<ChatPrompt> prompt() const;

  /// A stream for the reply to `prompt`.
  StatusOr<ReplyStream>
  reply(const ChatPrompt &prompt,
        ReplyOptions options = ReplyOptions::forChat()) const {
    return ReplyStream::create(format_.tokenizer(), prompt.text,
                               std::move(options));
  }

  /// Adds the reply to `prompt` as the last message.
  void addReply(const ChatPrompt &prompt, const Reply &reply);

private:
  ChatFormat format_;
  Messages messages_;
  ChatOptions options_;
  /// The last prompt with its reply as they were, and their tokens.
  std::string progressText_;
  std::vector<int32_t> heardTokens_;
};

} // namespace moert

#endif // MOE_RUNTIME_CHAT_CONVERSATION_H
