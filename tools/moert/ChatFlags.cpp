#include "tools/moert/ChatFlags.h"

#include "runtime/base/ReadInput.h"
#include "tools/moert/Options.h"

#include <utility>

namespace moert {

Thinking thinkingOf(std::string_view word) {
  return word == "off"     ? Thinking::Off
         : word == "force" ? Thinking::Forced
                           : Thinking::Default;
}

std::string typedText(const std::string &text, bool escapes) {
  if (!escapes) {
    static bool isNoted = false;
    if (text.find("\\n") != text.npos && !std::exchange(isNoted, true))
      moetool::note("note: \\n in a text is two characters; with -e it begins "
                    "a line\n");
    return text;
  }
  constexpr std::string_view letters = "ntr\\\"'", read = "\n\t\r\\\"'";
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t which = text[i] == '\\' && i + 1 < text.size()
                             ? letters.find(text[i + 1])
                             : letters.npos;
    result += which == letters.npos ? text[i] : read[which];
    i += which != letters.npos;
  }
  return result;
}

void ChatFlags::add(CLI::App &command) {
  moetool::addOption(command, rows::system, system);
  moetool::addOption(command, rows::systemFile, systemFile);
  moetool::addOption(command, rows::messages, messagesFile);
  moetool::addOption(command, rows::chatTemplate, templateFile);
  moetool::addReader(
      command, rows::templateValues, [this](const std::string &text) {
        MOE_ASSIGN_OR_RETURN(templateValues, readTemplateValues(text));
        return Status::ok();
      });
  moetool::addOption(command, rows::think, think);
  moetool::addOption(command, rows::noSpecial, noSpecial);
  moetool::addOption(command, rows::escapes, escapes);
}

Status ChatFlags::check() const {
  MOE_RETURN_IF_ERROR(messages().status());
  if (templateFile.empty())
    return Status::ok();
  MOE_ASSIGN_OR_RETURN(
      const std::string *source,
      texts->read(kTemplateRole, templateFile, kMostConversationBytes));
  if (auto parsed = ChatTemplate::parse(*source); !parsed)
    return parsed.status().at(inputName(templateFile));
  return Status::ok();
}

StatusOr<Messages> ChatFlags::messages() const {
  Messages result;
  if (!messagesFile.empty()) {
    MOE_ASSIGN_OR_RETURN(
        const std::string *text,
        texts->read("the messages", messagesFile, kMostConversationBytes));
    MOE_ASSIGN_OR_RETURN(result,
                         Messages::parse(*text, inputName(messagesFile)));
  }
  if (!system.empty())
    result.setSystem(typedText(system, escapes));
  if (!systemFile.empty()) {
    MOE_ASSIGN_OR_RETURN(
        const std::string *text,
        texts->read("the system message", systemFile, kMostConversationBytes));
    result.setSystem(*text);
  }
  for (const auto &[name, value] : templateValues.items())
    result.variables()[name] = value;
  return result;
}

StatusOr<ChatFormat> ChatFlags::format(const Plan &plan,
                                       const Tokenizer &tokenizer) const {
  if (templateFile.empty())
    return ChatFormat::create(plan, tokenizer);
  MOE_ASSIGN_OR_RETURN(
      const std::string *source,
      texts->read(kTemplateRole, templateFile, kMostConversationBytes));
  StatusOr<ChatFormat> format = ChatFormat::fromTemplate(*source, tokenizer);
  if (!format)
    return format.status().at(inputName(templateFile));
  return format;
}

ChatOptions ChatFlags::options() const {
  ChatOptions options;
  options.thinking = thinkingOf(think);
  options.noSpecial = noSpecial;
  return options;
}

Status ReplyPrinter::print(const ReplyEvent &event) {
  bool isEnd = event.kind == ReplyEvent::Kind::End;
  bool isReasoning = event.kind == ReplyEvent::Kind::Reasoning;
  if (isReasoning && hides_)
    return Status::ok();
  if (isReasoning != isDim_) {
    if (isDim_ && !isEnd)
      moetool::printText("\n\n");
    isDim_ = isReasoning;
    moetool::setDim(isDim_);
  }
  if (isEnd)
    return Status::ok();
  moetool::printText(event.text);
  // A failed flush means that nobody reads the output, and ends the generation.
  return moetool::flush();
}

} // namespace moert
