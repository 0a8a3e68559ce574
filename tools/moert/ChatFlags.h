//===- ChatFlags.h - Options of conversations, and their output -*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_CHATFLAGS_H
#define MOE_TOOLS_MOERT_CHATFLAGS_H

#include "runtime/base/InputTexts.h"
#include "runtime/chat/ChatFormat.h"
#include "runtime/chat/ReplyStream.h"
#include "runtime/plan/Plan.h"
#include "tools/common/Cli.h"

#include <memory>

namespace moert {

inline constexpr const char *kTemplateRole = "the chat template";

/// Returns the template's setting for a word of --think.
Thinking thinkingOf(std::string_view word);

/// Returns a text of the command line. With `escapes`, \n, \t, \\ and the like
/// in it are read as in C; without, a note says once that \n is two characters.
std::string typedText(const std::string &text, bool escapes);

/// The options that `run --chat` and `chat` share.
struct ChatFlags {
  std::string system, systemFile, messagesFile, templateFile;
  /// An object: variables of the template besides the conversation.
  nlohmann::ordered_json templateValues = nlohmann::ordered_json::object();
  std::string think = "show"; ///< "show", "hide", "off" or "force".
  bool noSpecial = false, escapes = false;
  /// Caches the files and streams of the command line, each of which is read
  /// only once, even if every answer needs it.
  std::shared_ptr<InputTexts> texts = std::make_shared<InputTexts>();

  void add(CLI::App &command);

  /// Fails if a file of these options cannot be read or is malformed, as far as
  /// that is known before a plan is loaded.
  Status check() const;
  /// Returns the messages of --messages and --system.
  StatusOr<Messages> messages() const;
  /// Returns the chat template of --template, or the plan's.
  StatusOr<ChatFormat> format(const Plan &plan,
                              const Tokenizer &tokenizer) const;
  ChatOptions options() const;
  bool hidesReasoning() const { return think == "hide"; }
};

/// Prints a reply while it is generated: reasoning in dim text, or not at all.
class ReplyPrinter {
public:
  explicit ReplyPrinter(bool hidesReasoning) : hides_(hidesReasoning) {}

  Status print(const ReplyEvent &event);

private:
  bool hides_, isDim_ = false;
};

} // namespace moert

#endif // MOE_TOOLS_MOERT_CHATFLAGS_H
