#include "compiler/Explain/Explain.h"
#include "runtime/base/InputSet.h"
#include "runtime/base/OutputFile.h"
#include "tools/moec/Commands.h"
#include "tools/moec/Options.h"

#include <memory>

using moert::Status;

namespace moec {

namespace {
struct Options {
  std::string plan, html;
  uint32_t rung = 0;
  bool full = false;
  bool json = false;
};

Status writePage(const moert::Plan &plan, const Options &options) {
  moert::InputSet inputs;
  inputs.add("the plan", options.plan);
  MOE_RETURN_IF_ERROR(inputs.refuse(options.html));
  MOE_ASSIGN_OR_RETURN(moert::OutputFile file,
                       moert::OutputFile::create(options.html));
  std::string page = explainHtml(plan);
  MOE_RETURN_IF_ERROR(file.write(page.data(), page.size()));
  return file.commit();
}
} // namespace

void addExplainCommand(moetool::Tool &tool) {
  auto options = std::make_shared<Options>();
  CLI::App *command = tool.command(
      "explain",
      "Show where a plan runs each op and why, what every device holds, and "
      "the predicted speed",
      [options] {
        // A GGUF model is answered with the compile command to run first.
        MOE_ASSIGN_OR_RETURN(moert::Plan plan,
                             moert::Plan::read(options->plan));
        MOE_RETURN_IF_ERROR(plan.chooseNamed(options->rung));
        if (!options->html.empty())
          return writePage(plan, *options);
        if (options->json)
          moetool::printJson(explainJson(plan));
        else
          moetool::printText(explainText(plan, options->full));
        return Status::ok();
      });
  moetool::addOption(*command, rows::plan, options->plan);
  moetool::addOption(*command, rows::rung, options->rung);
  moetool::addOption(*command, rows::full, options->full);
  moetool::addOption(*command, rows::explainJson, options->json);
  moetool::addOption(*command, rows::html, options->html);
}

} // namespace moec
