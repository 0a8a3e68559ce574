// moert render: prints the text that a chat template makes of a conversation.
#include "runtime/base/JsonPlace.h"
#include "runtime/base/ReadInput.h"
#include "runtime/plan/PlanTokenizer.h"
#include "tools/moert/ChatFlags.h"
#include "tools/moert/Commands.h"
#include "tools/moert/Options.h"

#include <memory>

namespace moert {

namespace {
struct RenderFlags {
  std::string plan, templateFile, input;
};

StatusOr<ChatTemplate> templateOf(const RenderFlags &flags, InputTexts &texts,
                                  ChatInput &input) {
  if (flags.plan.empty() == flags.templateFile.empty())
    return Status(StatusCode::Usage,
                  "give the template with either a plan or --template FILE");
  if (flags.templateFile.empty()) {
    MOE_ASSIGN_OR_RETURN(Plan plan, Plan::load(flags.plan));
    MOE_ASSIGN_OR_RETURN(Tokenizer tokenizer, planTokenizer(plan));
    input.strings = tokenVariables(tokenizer);
    return planChatTemplate(plan);
  }
  MOE_ASSIGN_OR_RETURN(
      const std::string *source,
      texts.read(kTemplateRole, flags.templateFile, kMostConversationBytes));
  StatusOr<ChatTemplate> chat = ChatTemplate::parse(*source);
  if (!chat)
    return chat.status().at(inputName(flags.templateFile));
  return chat;
}

/// The nesting that templates support.
constexpr int mostNesting = 400;

Status render(const RenderFlags &flags) {
  ChatInput input;
  InputTexts texts;
  MOE_ASSIGN_OR_RETURN(ChatTemplate chat, templateOf(flags, texts, input));
  MOE_ASSIGN_OR_RETURN(
      const std::string *json,
      texts.read("the messages", flags.input, kMostConversationBytes));
  input.json = *json;
  // Parsed here as well, because the template's parser cannot report file and
  // line.
  std::string name = inputName(flags.input);
  MOE_ASSIGN_OR_RETURN(nlohmann::ordered_json variables,
                       parseJson(name, input.json, mostNesting));
  if (!variables.is_object())
    return JsonPlace(name, input.json)
        .error("is not a JSON object of the template's variables");
  MOE_ASSIGN_OR_RETURN(std::string text, chat.render(input));
  moetool::printBytes(text);
  return Status::ok();
}
} // namespace

void addRenderCommand(moetool::Tool &tool) {
  auto flags = std::make_shared<RenderFlags>();
  CLI::App *command = tool.command(
      "render", "Print the text that a chat template makes of messages",
      [flags] { return render(*flags); });
  moetool::addOption(*command, rows::renderPlan, flags->plan);
  moetool::addOption(*command, rows::renderTemplate, flags->templateFile);
  moetool::addOption(*command, rows::renderInput, flags->input);
}

} // namespace moert
