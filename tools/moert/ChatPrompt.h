//===- ChatPrompt.h - Conversations as prompts ------------------*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_CHATPROMPT_H
#define MOE_TOOLS_MOERT_CHATPROMPT_H

#include "runtime/base/InputTexts.h"
#include "runtime/base/OutputTarget.h"
#include "runtime/engine/Generate.h"
#include "runtime/plan/Plan.h"
#include "runtime/text/ChatTemplate.h"
#include "runtime/text/Reasoning.h"
#include "tools/common/Cli.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

namespace moert {

/// Conversations and their templates are text that people wrote.
inline constexpr uint64_t kMostConversationBytes = uint64_t{64} << 20;
inline constexpr const char *kTemplateRole = "the chat template";

/// The options that `run --chat` and `chat` share.
struct ChatFlags {
  std::string system, messagesFile, templateFile;
  std::string think = "show"; ///< show, hide, off or force.
  bool noSpecial = false;
  /// Not an option: messages are text that the model goes on with.
  bool isPlain = false;
  /// Every file and stream of the command line is read once, also where each
  /// answer asks for it.
  std::shared_ptr<InputTexts> texts = std::make_shared<InputTexts>();

  void add(CLI::App &command);
};

/// A conversation: the variables that a chat template sees.
class Conversation {
public:
  /// Of --messages and --system.
  static StatusOr<Conversation> create(const ChatFlags &flags);

  void add(std::string_view role, std::string_view content,
           std::string_view reasoning = {});
  void dropLast() { messages().erase(messages().size() - 1); }
  /// Without messages, but for a system's.
  void reset();
  void setSystem(std::string_view text);
  /// "" for an empty conversation.
  std::string lastRole() const;

  Status save(OutputTarget target) const;
  /// A list of messages, or an object that has it among other variables.
  static StatusOr<Conversation> load(const std::string &path);

  nlohmann::ordered_json &messages() { return variables_["messages"]; }
  const nlohmann::ordered_json &variables() const { return variables_; }

private:
  static StatusOr<Conversation> parse(const std::string &text,
                                      const std::string &path);

  nlohmann::ordered_json variables_ = {
      {"messages", nlohmann::ordered_json::array()}};
};

/// A plan's chat template, or that of a file, with the plan's tokens.
class ChatPrompt {
public:
  static StatusOr<ChatPrompt>
  create(const Plan &plan, const Tokenizer &tokenizer, const ChatFlags &flags);

  /// What the model is to go on after.
  StatusOr<std::string> render(const Conversation &conversation) const;
  /// Its tokens, or with `continues` those of a later part of it.
  StatusOr<std::vector<int32_t>> encode(std::string_view text,
                                        bool continues = false) const;

private:
  ChatPrompt(ChatTemplate chat, const Tokenizer &tokenizer,
             const ChatFlags &flags)
      : template_(std::move(chat)), tokenizer_(&tokenizer), flags_(flags) {}

  ChatTemplate template_;
  const Tokenizer *tokenizer_;
  ChatFlags flags_;
};

/// bos_token and eos_token, as the tokenizer has them.
std::vector<std::pair<std::string, std::string>>
tokenVariables(const Tokenizer &tokenizer);

/// Shows a reply as it comes: reasoning dim, or not at all.
class ReplyPrinter {
public:
  ReplyPrinter(std::string_view prompt, const ChatFlags &flags, bool quiet)
      : splitter_(prompt), hides_(flags.think == "hide"), quiet_(quiet) {}

  Status push(std::string_view text) { return show(splitter_.push(text)); }
  Status finish();

  const std::string &answer() const { return answer_; }
  const std::string &reasoning() const { return reasoning_; }

private:
  Status show(const std::vector<ReasoningSplitter::Part> &parts);

  ReasoningSplitter splitter_;
  bool hides_, quiet_, isDim_ = false;
  std::string answer_, reasoning_;
};

} // namespace moert

#endif // MOE_TOOLS_MOERT_CHATPROMPT_H
