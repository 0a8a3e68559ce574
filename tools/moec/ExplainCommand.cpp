#include "compiler/Explain/Explain.h"
#include "tools/moec/Commands.h"

#include <memory>

using moert::Status;

namespace moec {

void addExplainCommand(moetool::Tool &tool) {
  struct Options {
    std::string plan;
    bool full = false;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App *command = tool.command(
      "explain",
      "Show where a plan runs each op and why, what every device holds, and "
      "the predicted speed",
      [options] {
        // A GGUF model is answered with the compile command to run first.
        MOE_ASSIGN_OR_RETURN(moert::Plan plan,
                             moert::Plan::read(options->plan));
        if (options->json)
          moetool::printJson(explainJson(plan.table()));
        else
          moetool::printText(explainText(plan.table(), options->full));
        return Status::ok();
      });
  command->add_option("plan", options->plan, "The plan.fb that moec wrote")
      ->required();
  CLI::Option *full = command->add_flag("--full", options->full,
                                        "A row for every op of every layer");
  command->add_flag("--json", options->json, "One JSON object with all figures")
      ->excludes(full);
}

} // namespace moec
