//===- ChatFormat.h - From messages to a prompt -----------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CHAT_CHATFORMAT_H
#define MOE_RUNTIME_CHAT_CHATFORMAT_H

#include "runtime/chat/Messages.h"
#include "runtime/plan/Plan.h"
#include "runtime/text/ChatTemplate.h"
#include "runtime/text/Tokenizer.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moert {

/// What to ask of a model that can reason before it answers.
enum class Thinking {
  Default, ///< Whatever its template does unasked.
  Off,     ///< enable_thinking is false.
  Forced,  ///< enable_thinking is true, and the reply begins inside <think>.
};

struct ChatOptions {
  Thinking thinking = Thinking::Default;
  /// Names of special tokens inside messages are ordinary text. Set it where
  /// messages come from people who may not end each other's turns.
  bool noSpecial = false;
};

/// What the model is to go on after.
struct ChatPrompt {
  std::string text;
  std::vector<int32_t> tokens;
};

/// A model's way to write conversations: its chat template and its tokenizer.
/// Const functions may run on several threads at once; copies are cheap. The
/// tokenizer must outlive all of them.
class ChatFormat {
public:
  /// The plan's template. Fails with Unsupported where it has none.
  static StatusOr<ChatFormat> create(const Plan &plan,
                                     const Tokenizer &tokenizer);
  /// Another template.
  static StatusOr<ChatFormat> fromTemplate(std::string_view source,
                                           const Tokenizer &tokenizer);
  /// For models that go on with text: messages one after the other, each of a
  /// user on a new line.
  static ChatFormat plain(const Tokenizer &tokenizer);

  /// The text of `messages` and the beginning of a reply. Fails with Usage
  /// where the template refuses them.
  StatusOr<std::string> render(const Messages &messages,
                               const ChatOptions &options = {}) const;
  /// The tokens of a rendered text, or with `continues` those of a later part
  /// of one.
  StatusOr<std::vector<int32_t>> encode(std::string_view text,
                                        const ChatOptions &options = {},
                                        bool continues = false) const;
  /// Both.
  StatusOr<ChatPrompt> prompt(const Messages &messages,
                              const ChatOptions &options = {}) const;

  const Tokenizer &tokenizer() const { return *tokenizer_; }

private:
  ChatFormat(ChatTemplate chat, const Tokenizer &tokenizer, bool isPlain)
      : template_(std::make_shared<const ChatTemplate>(std::move(chat))),
        tokenizer_(&tokenizer), isPlain_(isPlain) {}

  std::shared_ptr<const ChatTemplate> template_;
  const Tokenizer *tokenizer_;
  bool isPlain_;
};

/// bos_token and eos_token, as the tokenizer has them: variables of a template.
std::vector<std::pair<std::string, std::string>>
tokenVariables(const Tokenizer &tokenizer);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_CHATFORMAT_H
