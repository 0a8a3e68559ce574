// moert render: the text that a chat template makes of a conversation.
#include "runtime/PlanTokenizer.h"
#include "runtime/base/JsonPlace.h"
#include "runtime/base/ReadInput.h"
#include "tools/moert/ChatPrompt.h"
#include "tools/moert/Commands.h"

#include <memory>

namespace moert {

namespace {
struct RenderFlags {
  std::string plan, templateFile, input;
};

StatusOr<ChatTemplate> templateOf(const RenderFlags &flags, ChatInput &input) {
  if (flags.plan.empty() == flags.templateFile.empty())
    return Status(StatusCode::Usage,
                  "give the template with either a plan or --template FILE");
  if (flags.templateFile.empty()) {
    MOE_ASSIGN_OR_RETURN(Plan plan, Plan::load(flags.plan));
    MOE_ASSIGN_OR_RETURN(Tokenizer tokenizer, planTokenizer(plan));
    input.strings = tokenVariables(tokenizer);
    return planChatTemplate(plan);
  }
  MOE_ASSIGN_OR_RETURN(std::string source,
                       readInput(flags.templateFile, uint64_t{64} << 20));
  StatusOr<ChatTemplate> chat = ChatTemplate::parse(source);
  if (!chat)
    return chat.status().at(inputName(flags.templateFile));
  return chat;
}

/// As deep as a template may look.
constexpr int mostNesting = 400;

Status render(const RenderFlags &flags) {
  ChatInput input;
  MOE_ASSIGN_OR_RETURN(ChatTemplate chat, templateOf(flags, input));
  MOE_ASSIGN_OR_RETURN(input.json, readInput(flags.input, uint64_t{64} << 20));
  // The template's own reader knows neither the file nor its lines.
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
