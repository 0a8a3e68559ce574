#include "compiler/Driver/Driver.h"
#include "compiler/Import/ModelCard.h"
#include "runtime/base/ShellCommand.h"
#include "runtime/text/ChatTemplate.h"
#include "tools/common/ModelPath.h"
#include "tools/moec/Commands.h"
#include "tools/moec/Options.h"

#include <memory>

using moert::Status;

namespace moec {

/// Prints the template on stdout and, on stderr, why moert cannot use it.
static Status printTemplate(const GgufModel &model) {
  MOE_ASSIGN_OR_RETURN(std::optional<std::string_view> source,
                       model.getString("tokenizer.chat_template"));
  if (!source)
    return Status(moert::StatusCode::Unsupported,
                  model.paths().front() +
                      ": has no chat template (tokenizer.chat_template)");
  moetool::printBytes(*source);
  if (!source->ends_with('\n'))
    moetool::printBytes("\n");
  if (Status status = moert::ChatTemplate::parse(*source).status(); !status)
    moetool::note("note: moert cannot use it: {}\n", status.message());
  return Status::ok();
}

/// Returns whether the model compiles, as moec compile reports it, but without
/// the model's name, as the card describes only this model.
static ModelCard::Verdict verdictOf(const GgufModel &model) {
  moert::StatusOr<std::vector<std::string>> notes = checkModel(model);
  if (notes)
    return {.refusal = "", .notes = *std::move(notes)};
  std::string message = moetool::fullMessage(notes.status());
  std::string_view reason = message;
  std::string place = model.paths().front() + ": ";
  if (reason.starts_with(place))
    reason.remove_prefix(place.size());
  return {.refusal = std::string(reason), .notes = {}};
}

void addModelCommand(moetool::Tool &tool) {
  struct Options {
    std::string model;
    bool json = false, chatTemplate = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App *command = tool.command(
      "model",
      "Describe a GGUF model: what it is, bytes by part, whether it compiles",
      [options] {
        MOE_ASSIGN_OR_RETURN(GgufModel model, GgufModel::open(options->model));
        if (options->chatTemplate)
          return printTemplate(model);
        MOE_ASSIGN_OR_RETURN(ModelCard card, makeModelCard(model));
        card.verdict = verdictOf(model);
        if (options->json) {
          moetool::printJson(modelCardJson(card));
          return Status::ok();
        }
        moetool::printText(moetool::pasteable(modelCardText(card)));
        if (card.verdict->refusal.empty())
          moetool::noteNext("moec plan " + moert::shellPath(options->model));
        return Status::ok();
      });
  moetool::addModelPath(*command, rows::model, options->model);
  moetool::addOption(*command, rows::json, options->json);
  moetool::addOption(*command, rows::chatTemplate, options->chatTemplate);
}

} // namespace moec
