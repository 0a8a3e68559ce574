#include "compiler/Explain/Diff.h"
#include "runtime/plan/Plan.h"
#include "tools/moec/Commands.h"
#include "tools/moec/Options.h"

#include <memory>

using moert::Status;

namespace moec {

namespace {
struct Options {
  std::string a, b;
  bool json = false;
};
} // namespace

void addDiffCommand(moetool::Tool &tool) {
  auto options = std::make_shared<Options>();
  CLI::App *command = tool.command(
      "diff",
      "Show how two plans differ: options, memory, predicted speed, and the "
      "ops that are elsewhere or take another time",
      [options] {
        MOE_ASSIGN_OR_RETURN(moert::Plan a, moert::Plan::read(options->a));
        MOE_ASSIGN_OR_RETURN(moert::Plan b, moert::Plan::read(options->b));
        PlanDiff diff(a.table(), b.table());
        if (options->json)
          moetool::printJson(diffJson(diff));
        else
          moetool::printText(diffText(diff));
        return Status::ok();
      });
  moetool::addOption(*command, rows::planA, options->a);
  moetool::addOption(*command, rows::planB, options->b);
  moetool::addOption(*command, rows::json, options->json);
}

} // namespace moec
