#include "compiler/Driver/Driver.h"
#include "tools/common/Force.h"
#include "tools/common/Json.h"
#include "tools/moec/Commands.h"
#include "tools/moec/Options.h"

#include <memory>

using moert::Status;

namespace moec {

namespace {
struct Paths {
  std::string input, output;
  uint32_t rung = 0;
  bool json = false, force = false;
};
} // namespace

void addInspectCommand(moetool::Tool &tool) {
  auto paths = std::make_shared<Paths>();
  CLI::App *command = tool.command(
      "inspect", "Print a plan as text of the plan dialect", [paths] {
        MOE_ASSIGN_OR_RETURN(std::string text,
                             inspectPlan(paths->input, paths->rung));
        moetool::printText(text);
        return Status::ok();
      });
  moetool::addOption(*command, rows::plan, paths->input);
  moetool::addOption(*command, rows::rung, paths->rung);
}

void addAssembleCommand(moetool::Tool &tool) {
  auto paths = std::make_shared<Paths>();
  CLI::App *command = tool.command(
      "assemble", "Turn the text that inspect prints into a plan", [paths] {
        MOE_RETURN_IF_ERROR(
            moetool::checkJsonAlone(paths->json, paths->output, "-o", "plan"));
        MOE_RETURN_IF_ERROR(
            assemblePlan(paths->input, paths->output, paths->force));
        if (paths->json)
          moetool::printDocument({{"output", paths->output}});
        return Status::ok();
      });
  moetool::addOption(*command, rows::planText, paths->input);
  moetool::addOption(*command, rows::planOutput, paths->output);
  moetool::addForce(*command, paths->force);
  moetool::addOption(*command, rows::json, paths->json);
}

} // namespace moec
