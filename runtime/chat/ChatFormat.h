//===- ChatFormat.h - From messages to a prompt -----------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CHAT_CHATFORMAT_H
#define MOE_RUNTIME_CHAT_CHATFORMAT_H

#include "runtime/chat/History.h"
#include "runtime/chat/Messages.h"
#include "runtime/chat/Speech.h"
#include "runtime/plan/Plan.h"
#include "runtime/text/ChatTemplate.h"
#include "runtime/text/Tokenizer.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moert {

/// The ways to ask a model that can reason to do so before it answers.
enum class Thinking {
  Default, ///< The template decides.
  Off,     ///< enable_thinking is false.
  /// enable_thinking is true, and the reply begins inside its reasoning.
  Forced,
};

struct ChatOptions {
  Thinking thinking = Thinking::Default;
  /// Treats the names of special tokens inside messages and tools as ordinary
  /// text, whoever wrote them. Set it if authors must not be able to end each
  /// other's turns.
  bool noSpecial = false;
  /// If the last message is the assistant's, has a text and calls no tools, the
  /// reply goes on with it instead of being a new message.
  bool continuesLast = false;
  /// Deadline after which rendering and encoding fail.
  Deadline deadline = {};
};

/// A chat template in place of a plan's, and what conversations use that do not
/// say otherwise.
struct TemplateSettings {
  std::string source = {}; ///< Jinja source; "": the plan's template.
  /// Variables of the template: an object.
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  Thinking thinking = Thinking::Default;
};

/// Reads an object of values for a chat template, as users type it: JSON
/// without the conversation itself. Fails with Usage or InvalidFile.
StatusOr<nlohmann::ordered_json> readTemplateValues(std::string_view json);

/// A rendered conversation up to the beginning of the reply: the model's input.
struct ChatPrompt {
  std::string text;
  std::vector<int32_t> tokens;
};

/// A model's way to write conversations: its chat template and its tokenizer.
/// Const functions may run on several threads at once; copies are cheap. The
/// tokenizer must outlive all of them.
class ChatFormat {
public:
  /// Uses the chat template of the plan. Fails with Unsupported if it has none.
  static StatusOr<ChatFormat> create(const Plan &plan,
                                     const Tokenizer &tokenizer);
  /// Uses `source` as the chat template, instead of the plan's.
  static StatusOr<ChatFormat> fromTemplate(std::string_view source,
                                           const Tokenizer &tokenizer);
  /// Uses no template, for models that only continue text: messages follow each
  /// other, and each message of the user begins a new line.
  static ChatFormat plain(const Tokenizer &tokenizer);

  /// Returns the text of `messages` and the beginning of a reply. Fails with
  /// Usage if the template rejects the messages, or does not write the last one
  /// that is to be continued.
  StatusOr<std::string> render(const Messages &messages,
                               const ChatOptions &options = {}) const;
  /// Returns the tokens of a rendered text. With `continues`, the text follows
  /// other text, so that no token for the beginning of a text is added.
  StatusOr<std::vector<int32_t>> encode(std::string_view text,
                                        const ChatOptions &options = {},
                                        bool continues = false) const;
  /// Renders and encodes `messages`.
  StatusOr<ChatPrompt> prompt(const Messages &messages,
                              const ChatOptions &options = {}) const;

  /// Sets what holds for conversations that do not say otherwise.
  void setDefaults(TemplateSettings settings) {
    defaults_ = std::make_shared<const TemplateSettings>(std::move(settings));
  }

  const Tokenizer &tokenizer() const { return *tokenizer_; }
  /// How the model speaks; never null.
  const std::shared_ptr<const Speech> &speech() const { return speech_; }
  /// The conversations that the template takes, for fitPrompt().
  const History &history() const { return *history_; }

private:
  ChatFormat(ChatTemplate chat, const Tokenizer &tokenizer, bool isPlain);

  /// The variables that are texts, for a conversation with these variables.
  std::vector<std::pair<std::string, std::string>>
  textVariables(const nlohmann::ordered_json &variables) const;

  std::shared_ptr<const ChatTemplate> template_;
  std::shared_ptr<const Speech> speech_;
  std::shared_ptr<const History> history_;
  /// Null if there are no defaults.
  std::shared_ptr<const TemplateSettings> defaults_;
  const Tokenizer *tokenizer_;
  bool isPlain_;
  /// The template renders nothing without the tools as a text `functions`, and
  /// the date as `datetime` (firefunction).
  bool wantsFunctionText_ = false;
};

/// Returns the template variables bos_token and eos_token with the tokenizer's
/// values.
std::vector<std::pair<std::string, std::string>>
tokenVariables(const Tokenizer &tokenizer);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_CHATFORMAT_H
