// moert logits: writes the logits after each of the given tokens.
#include "tools/common/Force.h"
#include "tools/common/Interrupt.h"
#include "tools/common/Json.h"
#include "tools/moert/Commands.h"
#include "tools/moert/Npy.h"
#include "tools/moert/Shared.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <memory>
#include <optional>

namespace moert {

namespace {
struct LogitsFlags {
  EngineFlags engine;
  std::vector<int32_t> tokens;
  bool step = false, draft = false, json = false, force = false;
  int32_t beside = 0;
  std::string out, session;
};

/// Appends token by token, in steps that also have tokens of `others` further
/// sequences. These consist of the same tokens, each starting at another one.
Status appendInBatch(Engine &engine, Sequence &own,
                     const std::vector<int32_t> &tokens, int32_t others,
                     NpyWriter &npy) {
  std::vector<Sequence> sequences;
  for (int32_t i = 0; i < others; ++i)
    sequences.push_back(engine.sequence());
  for (size_t at = 0; at < tokens.size(); ++at) {
    std::vector<int32_t> next;
    for (size_t i = 0; i <= sequences.size(); ++i)
      next.push_back(tokens[(at + i) % tokens.size()]);
    std::vector<Request> requests{{&own, {&next[0], 1}}};
    for (size_t i = 0; i < sequences.size(); ++i)
      requests.push_back({&sequences[i], {&next[i + 1], 1}});
    auto isOpen = [](const Request &request) { return request.isOpen(); };
    while (std::any_of(requests.begin(), requests.end(), isOpen))
      MOE_RETURN_IF_ERROR(engine.step(
          requests, [&](size_t request, int32_t, std::span<const float> row) {
            return request == 0 ? npy.append(row) : Status::ok();
          }));
    for (const Request &request : requests)
      MOE_RETURN_IF_ERROR(request.status);
  }
  return Status::ok();
}

/// Appends the logits that the layer for multi-token prediction gives for every
/// token but the first.
Status appendDrafts(Engine &engine, std::span<const int32_t> tokens,
                    NpyWriter &npy) {
  Sequence sequence = engine.sequence({.sharePrefixes = false});
  sequence.setCancel(moetool::catchInterrupt());
  std::vector<float> hidden;
  Request request{&sequence, tokens};
  request.hidden = [&](int32_t, std::span<const float> state) {
    hidden.insert(hidden.end(), state.begin(), state.end());
  };
  auto ignore = [](size_t, int32_t, std::span<const float>) {
    return Status::ok();
  };
  while (request.isOpen())
    MOE_RETURN_IF_ERROR(engine.step({&request, 1}, ignore));
  MOE_RETURN_IF_ERROR(request.status);
  return engine.draft(sequence, 0, tokens.subspan(1), hidden,
                      [&](size_t, int32_t, std::span<const float> logits) {
                        return npy.append(logits);
                      });
}

Status writeLogits(LogitsFlags &flags) {
  MOE_RETURN_IF_ERROR(
      moetool::checkJsonAlone(flags.json, flags.out, "--out", "logits"));
  if (flags.draft && (flags.beside > 0 || !flags.session.empty()))
    return Status(StatusCode::Usage,
                  "--draft goes neither with --beside nor with --session");
  if (flags.draft && flags.tokens.size() < 2)
    return Status(StatusCode::Usage, "--draft needs two tokens at least");
  MOE_RETURN_IF_ERROR(flags.engine.checkOutput(
      flags.session, OutputKind::Session, flags.force));
  MOE_RETURN_IF_ERROR(
      flags.engine.checkOutput(flags.out, OutputKind::Array, flags.force));
  MOE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, flags.engine.open());
  OutputRule rule = engine->outputRule(flags.force);
  std::optional<OutputTarget> session;
  if (!flags.session.empty()) {
    MOE_ASSIGN_OR_RETURN(session,
                         rule.target(flags.session, OutputKind::Session));
    rule.addInput("the session", flags.session);
  }
  MOE_ASSIGN_OR_RETURN(OutputTarget target,
                       rule.target(flags.out, OutputKind::Array));
  MOE_RETURN_IF_ERROR(checkSequences(*engine, "--beside", 1 + flags.beside));
  MOE_ASSIGN_OR_RETURN(Sequence sequence, sessionAt(*engine, flags.session));
  sequence.setCancel(moetool::catchInterrupt());
  MOE_ASSIGN_OR_RETURN(NpyWriter npy, NpyWriter::create(std::move(target),
                                                        flags.tokens.size() -
                                                            size_t(flags.draft),
                                                        engine->logitsSize()));
  if (flags.draft) {
    MOE_RETURN_IF_ERROR(appendDrafts(*engine, flags.tokens, npy));
  } else if (flags.beside > 0) {
    MOE_RETURN_IF_ERROR(
        appendInBatch(*engine, sequence, flags.tokens, flags.beside, npy));
  } else if (flags.step) {
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
  if (session)
    MOE_RETURN_IF_ERROR(sequence.save(std::move(*session)));
  if (flags.json)
    moetool::printDocument({{"out", flags.out},
                            {"tokens", flags.tokens.size()},
                            {"vocab", engine->vocab()},
                            {"threads", engine->team()}});
  return Status::ok();
}
} // namespace

void addLogitsCommand(moetool::Tool &tool) {
  auto flags = std::make_shared<LogitsFlags>();
  CLI::App *command = addEngineCommand(
      tool, "logits", "Write the logits after every token to a file", flags,
      writeLogits);
  flags->engine.addModelOrPlan(*command);
  moetool::addOption(*command, rows::tokens, flags->tokens);
  moetool::addOption(*command, rows::logitsOutput, flags->out);
  moetool::addForce(*command, flags->force);
  moetool::addOption(*command, rows::step, flags->step);
  moetool::addOption(*command, rows::beside, flags->beside);
  moetool::addOption(*command, rows::draftLogits, flags->draft);
  moetool::addOption(*command, rows::continuedSession, flags->session);
  moetool::addOption(*command, rows::json, flags->json);
  flags->engine.addThreads(*command);
  flags->engine.addRung(*command);
  flags->engine.addWeights(*command);
  flags->engine.addCompile(*command);
}

} // namespace moert
