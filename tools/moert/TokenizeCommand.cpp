// moert tokenize: prints the token ids of a text.
#include "runtime/base/ReadInput.h"
#include "runtime/plan/PlanTokenizer.h"
#include "tools/common/Json.h"
#include "tools/moert/Commands.h"
#include "tools/moert/Shared.h"

#include <fmt/format.h>
#include <memory>

namespace moert {

namespace {
struct TokenizeFlags {
  EngineFlags engine;
  std::string text, file;
  std::string pre;
  /// The option whose text may be empty.
  const CLI::Option *textOption = nullptr;
  bool noBos = false, noSpecial = false, pieces = false;
};

Status tokenize(const TokenizeFlags &flags) {
  const bool hasText = moetool::isGiven(flags.textOption);
  if (hasText == !flags.file.empty())
    return Status(StatusCode::Usage,
                  "give the text with either --text T or --file F");
  std::string text = flags.text;
  if (!hasText) {
    MOE_ASSIGN_OR_RETURN(text, readInput(flags.file, kMostTextBytes));
  }
  MOE_ASSIGN_OR_RETURN(Plan plan, Plan::load(flags.engine.plan));
  MOE_ASSIGN_OR_RETURN(Tokenizer tokenizer, planTokenizer(plan, flags.pre));
  EncodeOptions options;
  options.parseSpecial = !flags.noSpecial;
  if (flags.noBos)
    options.addBos = false;
  if (flags.pieces) {
    MOE_ASSIGN_OR_RETURN(std::vector<std::string> pieces,
                         tokenizer.pieces(text, options));
    moetool::printJson(
        nlohmann::json(pieces).dump(-1, ' ', false,
                                    nlohmann::json::error_handler_t::replace) +
        "\n");
    return Status::ok();
  }
  MOE_ASSIGN_OR_RETURN(std::vector<int32_t> tokens,
                       tokenizer.encode(text, options));
  moetool::print("[{}]\n", fmt::join(tokens, ", "));
  return Status::ok();
}
} // namespace

void addTokenizeCommand(moetool::Tool &tool) {
  auto flags = std::make_shared<TokenizeFlags>();
  CLI::App *command =
      tool.command("tokenize", "Print a text's token ids as a JSON list",
                   [flags] { return tokenize(*flags); });
  flags->engine.addPlan(*command);
  flags->textOption = moetool::addOption(*command, rows::text, flags->text);
  moetool::addOption(*command, rows::textFile, flags->file);
  moetool::addOption(*command, rows::noBos, flags->noBos);
  moetool::addOption(*command, rows::specialAsText, flags->noSpecial);
  moetool::addOption(*command, rows::pieces, flags->pieces);
  moetool::addOption(*command, rows::pre, flags->pre);
  moetool::addFlag(*command, rows::jsonAnyway, [] {});
}

} // namespace moert
