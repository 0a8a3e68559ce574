// moert render: the text that a chat template makes of a conversation.
#include "runtime/PlanTokenizer.h"
#include "runtime/base/ReadInput.h"
#include "tools/moert/ChatPrompt.h"
#include "tools/moert/Commands.h"

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

Status render(const RenderFlags &flags) {
  ChatInput input;
  InputTexts texts;
  MOE_ASSIGN_OR_RETURN(ChatTemplate chat, templateOf(flags, texts, input));
  MOE_ASSIGN_OR_RETURN(
      const std::string *variables,
      texts.read("the messages", flags.input, kMostConversationBytes));
  input.json = *variables;
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
  command->add_option("plan", flags->plan, "A plan, for its model's template")
      ->type_name("PLAN.fb");
  command
      ->add_option("--template", flags->templateFile,
                   "A Jinja template in place of a plan's; - is standard input")
      ->type_name("FILE");
  command
      ->add_option("--input", flags->input,
                   "A JSON object of the template's variables: messages, "
                   "tools, add_generation_prompt, bos_token, eos_token, "
                   "strftime_now (the clock, as \"YYYY-MM-DD HH:MM:SS\") and "
                   "any other; - is standard input")
      ->required()
      ->type_name("FILE.json");
}

} // namespace moert
