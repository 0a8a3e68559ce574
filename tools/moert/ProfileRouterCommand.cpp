// moert profile-router: measures which experts of each layer a text uses, and
// the weight of each.
//
// The text's tokens are cut into pieces of the plan's context (--ctx), and each
// piece starts with an empty KV cache. The record of recently used experts
// continues from one piece to the next.
#include "runtime/base/OutputFile.h"
#include "runtime/base/Page.h"
#include "runtime/base/ReadInput.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/PlanTokenizer.h"
#include "tools/common/Force.h"
#include "tools/common/Interrupt.h"
#include "tools/common/Json.h"
#include "tools/moert/Commands.h"
#include "tools/moert/RouterProfile.h"
#include "tools/moert/Shared.h"

#include <algorithm>
#include <memory>
#include <optional>

namespace moert {

namespace {
struct RouterFlags {
  EngineFlags engine;
  std::string file, output;
  int32_t window = 0, random = 0;
  bool json = false, force = false;
};

/// Checks that the model has experts before any weight is touched.
Status checkExperts(const std::string &path) {
  MOE_ASSIGN_OR_RETURN(Plan plan, Plan::load(path));
  const fb::Plan &table = plan.table();
  if (table.experts() > 0)
    return Status::ok();
  return Status(StatusCode::Unsupported,
                fmt::format("{}: the model {} has no experts, so that there is "
                            "no router to profile",
                            path, printable(text(table.model_name()))));
}

nlohmann::ordered_json document(const fb::Plan &plan, size_t tokens,
                                int32_t window, const RouterProfile &profile) {
  return {{"kind", "moert router profile"},
          {"version", 1},
          {"model", std::string(text(plan.model_name()))},
          {"model_hash", std::string(text(plan.model_hash()))},
          {"experts", plan.experts()},
          {"experts_used", plan.experts_used()},
          {"tokens", tokens},
          {"ctx", window},
          {"layers", profile.json()}};
}

/// Returns a table with a line for each layer.
std::string report(const RouterProfile &profile, size_t tokens) {
  auto percent = [](double part) {
    return fmt::format("{:.1f} %", 100 * part);
  };
  std::vector<std::vector<std::string>> rows;
  for (const auto &[number, layer] : profile.layers()) {
    size_t experts = layer.counts.size(), quarter = (experts + 3) / 4;
    auto used = size_t(std::ranges::count_if(
        layer.counts, [](uint64_t count) { return count > 0; }));
    rows.push_back({fmt::format("blk.{}", number),
                    fmt::format("{} of {}", used, experts),
                    percent(layer.shareOfHottest(quarter)),
                    percent(layer.cacheHits(quarter)),
                    percent(layer.massByRank.front() / double(layer.tokens)),
                    percent(layer.massByRank.back() / double(layer.tokens))});
  }
  Page page;
  page.group(fmt::format("experts used by {}", counted(tokens, "token")));
  page.table({{"layer"},
              {"used", true},
              {"hottest quarter", true, 20},
              {"quarter cached", true, 20},
              {"first choice", true, 20},
              {"last choice", true, 20}},
             rows);
  page.line("",
            "Hottest quarter, quarter cached: fractions of all choices that "
            "fall on the most used quarter of the");
  page.line("",
            "experts, and on the quarter used last. First, last choice: the "
            "largest and smallest fraction of the gate weights.");
  return page.take();
}

/// Returns the tokens of the text or, with --random, as many random tokens.
StatusOr<std::vector<int32_t>> tokensOf(const RouterFlags &flags,
                                        const Engine &engine,
                                        const std::string &text) {
  if (flags.random > 0)
    return randomTokens(engine, flags.random);
  MOE_ASSIGN_OR_RETURN(Tokenizer tokenizer, planTokenizer(engine.plan()));
  return tokenizer.encode(text);
}

Status profileRouter(RouterFlags &flags) {
  MOE_RETURN_IF_ERROR(
      moetool::checkJsonAlone(flags.json, flags.output, "-o", "profile"));
  if (flags.file.empty() == (flags.random == 0))
    return Status(StatusCode::Usage,
                  "expected either --file with a text or --random with a "
                  "number of tokens");
  std::string text;
  if (flags.random == 0) {
    MOE_ASSIGN_OR_RETURN(text, readInput(flags.file, kMostTextBytes));
    if (text.empty()) // Some tokenizers make a token even of an empty text.
      return Status(StatusCode::Usage,
                    fmt::format("{}: has no text to profile with", flags.file));
  }
  MOE_RETURN_IF_ERROR(flags.engine.checkOutput(
      flags.output, OutputKind::RouterProfile, flags.force));
  MOE_ASSIGN_OR_RETURN(const std::string plan,
                       flags.engine.planFile(flags.window));
  MOE_RETURN_IF_ERROR(checkExperts(plan));
  RouterProfile profile;
  EngineOptions options = flags.engine.options;
  options.rung.context = flags.window;
  options.makeDevices = [&](const Plan &plan, const WeightFiles &files,
                            DeviceOptions ofDevices) -> StatusOr<DeviceList> {
    MOE_ASSIGN_OR_RETURN(DeviceList devices,
                         makeDevices(plan, files, std::move(ofDevices)));
    return watchRouters(
        plan, std::move(devices),
        [&](const RouterChoice &choice) { profile.add(choice); });
  };
  MOE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                       flags.engine.open(options));
  // A shared prefix would leave nothing to compute.
  Sequence sequence = engine->sequence({.sharePrefixes = false});
  sequence.setCancel(moetool::catchInterrupt());
  MOE_ASSIGN_OR_RETURN(std::vector<int32_t> tokens,
                       tokensOf(flags, *engine, text));
  int32_t window = flags.window == 0 ? engine->context() : flags.window;
  std::optional<OutputFile> file;
  if (!flags.output.empty()) {
    OutputRule rule = engine->outputRule(flags.force);
    if (!flags.file.empty())
      rule.addInput("the text", flags.file);
    MOE_ASSIGN_OR_RETURN(OutputTarget target,
                         rule.target(flags.output, OutputKind::RouterProfile));
    MOE_ASSIGN_OR_RETURN(file, OutputFile::create(std::move(target)));
  }

  ProgressLine progress;
  std::span<const int32_t> left(tokens);
  while (!left.empty()) {
    MOE_RETURN_IF_ERROR(sequence.rewind(0));
    Request request{&sequence,
                    left.first(std::min(left.size(), size_t(window))),
                    Request::Logits::None};
    left = left.subspan(request.tokens.size());
    while (request.isOpen()) {
      progress.show(fmt::format(
          "profiling: {} of {} tokens",
          tokens.size() - left.size() - request.tokens.size(), tokens.size()));
      MOE_RETURN_IF_ERROR(engine->step({&request, 1}, {}));
    }
    MOE_RETURN_IF_ERROR(request.status);
  }
  progress.clear();

  nlohmann::ordered_json json =
      document(engine->plan().table(), tokens.size(), window, profile);
  if (file) {
    std::string bytes =
        json.dump(1, ' ', /*ensure_ascii=*/true,
                  nlohmann::ordered_json::error_handler_t::replace) +
        "\n";
    MOE_RETURN_IF_ERROR(file->write(bytes.data(), bytes.size()));
    MOE_RETURN_IF_ERROR(file->commit());
  }
  if (flags.json)
    moetool::printDocument(json);
  else if (flags.output == "-")
    moetool::noteText(report(profile, tokens.size()));
  else
    moetool::printText(report(profile, tokens.size()));
  return Status::ok();
}
} // namespace

void addProfileRouterCommand(moetool::Tool &tool) {
  auto flags = std::make_shared<RouterFlags>();
  CLI::App *command = addEngineCommand(
      tool, "profile-router",
      "Measure which experts of each layer a text uses, and how much each "
      "matters",
      flags, profileRouter);
  flags->engine.addModelOrPlan(*command);
  moetool::addOption(*command, rows::textFile, flags->file);
  moetool::addOption(*command, rows::randomTokens, flags->random);
  moetool::addOption(*command, rows::routerOutput, flags->output);
  moetool::addForce(*command, flags->force);
  moetool::addOption(*command, rows::routerWindow, flags->window);
  moetool::addOption(*command, rows::json, flags->json);
  flags->engine.addThreads(*command);
  flags->engine.addRung(*command, /*withContext=*/false);
  flags->engine.addWeights(*command);
  flags->engine.addCompile(*command);
}

} // namespace moert
