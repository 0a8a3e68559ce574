#include "compiler/Import/ModelCard.h"
#include "tools/moec/Commands.h"

#include <memory>

using moert::Status;

namespace moec {

void addModelCommand(moetool::Tool &tool) {
  struct Options {
    std::string model;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App *command = tool.command(
      "model", "Describe a GGUF model: architecture, experts, bytes by part",
      [options] {
        MOE_ASSIGN_OR_RETURN(GgufModel model, GgufModel::open(options->model));
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
  command->add_flag("--json", options->json, "One JSON object");
}

} // namespace moec
