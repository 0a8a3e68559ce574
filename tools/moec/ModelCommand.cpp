#include "compiler/Import/ModelCard.h"
#include "runtime/text/ChatTemplate.h"
#include "tools/moec/Commands.h"

#include <memory>

using moert::Status;

namespace moec {

/// The template itself on stdout, why it cannot be used on stderr.
static Status printTemplate(const GgufModel &model) {
  MOE_ASSIGN_OR_RETURN(std::optional<std::string_view> source,
                       model.getString("tokenizer.chat_template"));
  if (!source)
    return Status(moert::StatusCode::Unsupported,
                  model.paths().front() +
                      ": has no chat template (tokenizer.chat_template)");
  moetool::printText(*source);
  if (!source->ends_with('\n'))
    moetool::printText("\n");
  if (Status status = moert::ChatTemplate::parse(*source).status(); !status)
    moetool::note("note: moert cannot use it: {}\n", status.message());
  return Status::ok();
}

void addModelCommand(moetool::Tool &tool) {
  struct Options {
    std::string model;
    bool json = false, chatTemplate = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App *command = tool.command(
      "model", "Describe a GGUF model: architecture, experts, bytes by part",
      [options] {
        MOE_ASSIGN_OR_RETURN(GgufModel model, GgufModel::open(options->model));
        if (options->chatTemplate)
          return printTemplate(model);
        MOE_ASSIGN_OR_RETURN(ModelCard card, makeModelCard(model));
        if (options->json)
          moetool::printJson(modelCardJson(card));
        else
          moetool::printText(modelCardText(card));
        return Status::ok();
      });
  command
      ->add_option("model", options->model,
                   "The GGUF file, or any part of a split one")
      ->required();
  CLI::Option *json =
      command->add_flag("--json", options->json, "One JSON object");
  command
      ->add_flag("--template", options->chatTemplate,
                 "The chat template instead, as the file has it")
      ->excludes(json);
}

} // namespace moec
