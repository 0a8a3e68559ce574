#include "tools/moec/CompileOptions.h"

#include "tools/common/Options.h"

#include <fmt/format.h>

using moert::OptionInfo;
using moert::Status;

namespace moec {

// Parsers for value types of the driver, found by argument-dependent lookup.

static Status parseOption(const OptionInfo &, std::string_view text,
                          std::vector<LadderRung> &ladder) {
  MOE_ASSIGN_OR_RETURN(ladder, parseLadder(text));
  return Status::ok();
}

static Status parseOption(const OptionInfo &info, std::string_view text,
                          Emit &emit) {
  std::string word;
  MOE_RETURN_IF_ERROR(moert::parseOption(info, text, word));
  for (Emit known :
       {Emit::Moe, Emit::Placed, Emit::Plan, Emit::Rules, Emit::Fb})
    if (nameOf(known) == word)
      emit = known;
  return Status::ok();
}

OptionList addCompileOptions(CLI::App &command, CompileRequest &request,
                             unsigned use) {
  OptionList added;
  visitOptions([&](const OptionInfo &info, auto member) {
    if (use == 0 || (info.use & use))
      added.emplace_back(moetool::addOption(command, info, request.*member),
                         info);
  });
  return added;
}

} // namespace moec
