#include "compiler/Machine/Targets/Target.h"
#include "tools/common/Json.h"
#include "tools/moec/Commands.h"
#include "tools/moec/Options.h"
#include "tools/moec/PrintTarget.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <memory>

using moert::Status;

namespace moec {

namespace {
/// Prints each name, and beside it the other names of the same machine.
void printNames() {
  std::vector<std::string> names = targetNames();
  size_t width = 0;
  for (const std::string &name : names)
    width = std::max(width, name.size());
  for (const std::string &name : names) {
    std::vector<std::string> aliases = targetAliases(name);
    if (aliases.empty())
      moetool::print("{}\n", name);
    else
      moetool::print("{:<{}}  {}\n", name, width, fmt::join(aliases, ", "));
  }
}
} // namespace

void addTargetsCommand(moetool::Tool &tool) {
  struct Options {
    std::string name;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App *command = tool.command(
      "targets", "List machine descriptions, or show one", [options] {
        if (options->name.empty()) {
          if (options->json)
            moetool::printDocument(targetNames());
          else
            printNames();
          return Status::ok();
        }
        MOE_ASSIGN_OR_RETURN(TargetDesc target, describeParts(options->name));
        if (options->json)
          moetool::printJson(toJson(target));
        else
          printTarget(target);
        for (const std::string &note : target.notes)
          moetool::note("note: {}\n", note);
        return Status::ok();
      });
  moetool::addOption(*command, rows::targetName, options->name);
  moetool::addOption(*command, rows::targetJson, options->json);
}

} // namespace moec
