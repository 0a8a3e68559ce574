#include "compiler/Explain/Explain.h"
#include "compiler/Explain/Why.h"
#include "runtime/base/OutputFile.h"
#include "runtime/plan/OutputRule.h"
#include "tools/common/Force.h"
#include "tools/moec/Commands.h"
#include "tools/moec/Options.h"

#include <memory>

using moert::Status;

namespace moec {

namespace {
struct Options {
  std::string plan, html;
  std::optional<std::string> why;
  uint32_t rung = 0;
  bool full = false;
  bool json = false;
  bool force = false;
};

Status writePage(const moert::Plan &plan, const Options &options) {
  moert::OutputRule rule(options.force);
  rule.addInput("the plan", options.plan); // The path may be standard input.
  rule.addPlan(plan);
  MOE_ASSIGN_OR_RETURN(moert::OutputTarget target,
                       rule.target(options.html, moert::OutputKind::Page));
  return moert::writeOutput(std::move(target), explainHtml(plan));
}
Status printWhy(const moert::Plan &plan, const Options &options) {
  if (options.json) {
    MOE_ASSIGN_OR_RETURN(std::string json, whyJson(plan.table(), *options.why));
    moetool::printJson(json);
    return Status::ok();
  }
  MOE_ASSIGN_OR_RETURN(std::string text,
                       whyText(plan.table(), *options.why, options.full));
  moetool::printText(text);
  return Status::ok();
}
} // namespace

void addExplainCommand(moetool::Tool &tool) {
  auto options = std::make_shared<Options>();
  CLI::App *command = tool.command(
      "explain",
      "Show where a plan runs each op and why, what every device holds, and "
      "the predicted speed",
      [options] {
        // For a GGUF model, the error suggests the compile command.
        MOE_ASSIGN_OR_RETURN(moert::Plan plan,
                             moert::Plan::read(options->plan));
        MOE_RETURN_IF_ERROR(plan.chooseNamed(options->rung));
        if (!options->html.empty())
          return writePage(plan, *options);
        if (options->why)
          return printWhy(plan, *options);
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
  moetool::addReader(*command, rows::why, [options](const std::string &text) {
    options->why = text;
    return Status::ok();
  });
  moetool::addOption(*command, rows::html, options->html);
  moetool::addForce(*command, options->force);
}

} // namespace moec
