#include "compiler/Explain/Explain.h"
#include "runtime/OutputRule.h"
#include "runtime/base/OutputFile.h"
#include "tools/common/Force.h"
#include "tools/common/Numbers.h"
#include "tools/moec/Commands.h"

#include <memory>

using moert::Status;

namespace moec {

namespace {
struct Options {
  std::string plan, html;
  uint32_t rung = 0;
  bool full = false;
  bool json = false;
  bool force = false;
};

Status writePage(const moert::Plan &plan, const Options &options) {
  moert::OutputRule rule(options.force);
  rule.addInput("the plan", options.plan); // which may be standard input
  rule.addPlan(plan);
  MOE_ASSIGN_OR_RETURN(moert::OutputTarget target,
                       rule.target(options.html, moert::OutputKind::Page));
  return moert::writeOutput(std::move(target), explainHtml(plan));
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
  command->add_option("plan", options->plan, "The plan.fb that moec wrote")
      ->required();
  moetool::addRung(*command, options->rung);
  CLI::Option *full = command->add_flag("--full", options->full,
                                        "A row for every op of every layer");
  CLI::Option *json = command
                          ->add_flag("--json", options->json,
                                     "One JSON object with all figures")
                          ->excludes(full);
  command
      ->add_option("--html", options->html,
                   "Write a page for a browser, which needs nothing else: "
                   "memory, roofline, timelines and all ops in a table")
      ->type_name("FILE")
      ->excludes(full)
      ->excludes(json);
  moetool::addForce(*command, options->force);
}

} // namespace moec
