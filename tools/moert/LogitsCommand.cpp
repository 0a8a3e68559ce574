// moert logits: what the model predicts after each of the given tokens.
#include "tools/common/Interrupt.h"
#include "tools/common/Json.h"
#include "tools/common/Numbers.h"
#include "tools/moert/Commands.h"
#include "tools/moert/Npy.h"
#include "tools/moert/Shared.h"

#include <fmt/format.h>
#include <limits>
#include <memory>

namespace moert {

namespace {
struct LogitsFlags {
  EngineFlags engine;
  std::vector<int32_t> tokens;
  bool step = false, json = false;
  std::string out;
};

Status writeLogits(const LogitsFlags &flags) {
  MOE_RETURN_IF_ERROR(
      moetool::checkJsonAlone(flags.json, flags.out, "--out", "logits"));
  MOE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, flags.engine.open());
  MOE_RETURN_IF_ERROR(inputsOf(*engine).refuse(flags.out));
  Sequence sequence = engine->sequence();
  sequence.setCancel(moetool::catchInterrupt());
  MOE_ASSIGN_OR_RETURN(NpyWriter npy,
                       NpyWriter::create(flags.out, flags.tokens.size(),
                                         size_t(engine->vocab())));
  if (flags.step) {
    for (int32_t token : flags.tokens) {
      MOE_ASSIGN_OR_RETURN(std::span<const float> logits,
                           engine->append(sequence, token));
      MOE_RETURN_IF_ERROR(npy.append(logits));
    }
  } else {
    MOE_RETURN_IF_ERROR(
        engine->appendAll(sequence, flags.tokens,
                          [&](size_t, int32_t, std::span<const float> logits) {
                            return npy.append(logits);
                          }));
  }
  MOE_RETURN_IF_ERROR(npy.commit());
  if (flags.json)
    moetool::printDocument({{"out", flags.out},
                            {"tokens", flags.tokens.size()},
                            {"vocab", engine->vocab()},
                            {"threads", engine->threads()}});
  return Status::ok();
}
} // namespace

void addLogitsCommand(moetool::Tool &tool) {
  auto flags = std::make_shared<LogitsFlags>();
  CLI::App *command =
      tool.command("logits", "Write the logits after every token to a file",
                   [flags] { return writeLogits(*flags); });
  flags->engine.addPlan(*command);
  moetool::addNumbers(*command, "--tokens", flags->tokens,
                      "Token ids, for example 3,10,17", 0,
                      std::numeric_limits<int32_t>::max())
      ->required()
      ->type_name("IDS");
  command
      ->add_option("--out", flags->out,
                   "NPY file to write (-: standard output): float32, shape "
                   "[tokens, vocabulary]")
      ->required()
      ->type_name("X.npy");
  command->add_flag("--step", flags->step,
                    "Feed one token at a time through the decode phase "
                    "instead of all at once");
  command->add_flag("--json", flags->json,
                    "Print a JSON object that describes the file");
  flags->engine.addThreads(*command);
  flags->engine.addWeights(*command);
}

} // namespace moert
