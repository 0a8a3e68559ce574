#include "compiler/Driver/Driver.h"
#include "compiler/Driver/PlacedRules.h"
#include "compiler/Explain/ExplainJson.h"
#include "compiler/Explain/LadderTable.h"
#include "runtime/base/ShellCommand.h"
#include "runtime/base/Text.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/PlanAccess.h"
#include "tools/common/Interrupt.h"
#include "tools/common/Json.h"
#include "tools/common/ModelPath.h"
#include "tools/common/Options.h"
#include "tools/common/Progress.h"
#include "tools/moec/Commands.h"
#include "tools/moec/CompileOptions.h"
#include "tools/moec/Options.h"

#include <memory>
#include <optional>

using moert::Status;

namespace moec {

namespace {
struct Options {
  CompileRequest request;
  /// The command of moert that has called; "" for a user of moec.
  std::string calledBy;
  OptionList given;
};

/// Checks for options that have no effect with --emit. A target is allowed,
/// because scripts pass it with any --emit.
Status checkOptions(const Options &options) {
  const CompileRequest &request = options.request;
  bool textToStdout = request.emit != Emit::Fb && request.output.empty();
  MOE_RETURN_IF_ERROR(moetool::checkJsonAlone(
      request.json, textToStdout ? "-" : request.output, "-o", "output"));
  if (request.weights == "reference" && !request.weightsFile.empty())
    return Status(moert::StatusCode::Usage,
                  "--weights-file names a file that --weights reference does "
                  "not write; leave one of them out");
  if (request.emit == Emit::Fb)
    return Status::ok();
  for (const auto &[option, info] : options.given) {
    if (!moetool::isGiven(option))
      continue;
    if (info.use & moert::kOfPlanFile)
      return Status(moert::StatusCode::Usage,
                    fmt::format("{} only affects plan files, not the text "
                                "that --emit writes; leave one of them out",
                                longName(info)));
    if (request.emit == Emit::Moe && (info.use & moert::kNotForGraph))
      return Status(moert::StatusCode::Usage,
                    fmt::format("{} changes nothing with --emit moe, which "
                                "writes the model as it was imported; leave "
                                "one of them out",
                                longName(info)));
  }
  return Status::ok();
}

/// Prints the report as one JSON object.
Status printJson(const CompileReport &report, Emit emit) {
  nlohmann::ordered_json json = {{"output", report.output},
                                 {"packed", nullptr},
                                 {"packed_bytes", report.packedBytes},
                                 {"notes", report.notes}};
  if (!report.packed.empty())
    json["packed"] = report.packed;
  if (emit == Emit::Fb) {
    MOE_ASSIGN_OR_RETURN(moert::Plan plan,
                         moert::Plan::fromBytes(report.plan, report.output));
    ExplainSummary summary(plan.table());
    for (const DeviceMemory &memory : summary.devices)
      json["devices"].push_back(deviceJson(memory));
    auto orNull = [](std::optional<double> rate) {
      return rate ? nlohmann::ordered_json(*rate) : nullptr;
    };
    json["prefill_tokens_per_second"] = orNull(summary.prefillRate());
    json["decode_tokens_per_second"] = orNull(summary.decodeRate());
    json["batch_tokens_per_second"] = orNull(summary.batchRate());
    json["sequences"] = plan.table().sequences();
    json["kv_rows"] = moert::kvRows(plan.table());
    if (plan.rungs() > 0)
      json["rungs"] = ladderJson(plan);
  }
  moetool::printDocument(json);
  return Status::ok();
}

/// Prints whether the plan fits and how fast it is predicted to be.
Status printSummary(const CompileReport &report) {
  MOE_ASSIGN_OR_RETURN(moert::Plan plan,
                       moert::Plan::fromBytes(report.plan, report.output));
  if (plan.rungs() > 0) {
    moetool::note("{}", ladderText(plan));
    return Status::ok();
  }
  ExplainSummary summary(plan.table());
  for (const DeviceMemory &memory : summary.devices) {
    const moert::fb::Device &device = *memory.device;
    std::string ofAll =
        device.shares_memory() ? "the CPU's memory"
        : memory.usedByGpus > 0
            ? fmt::format("{}, {} of them the GPU's",
                          moert::humanBytes(double(device.memory_bytes())),
                          moert::humanBytes(double(memory.usedByGpus)))
            : moert::humanBytes(double(device.memory_bytes()));
    moetool::note("{}: {} of {} (weights {}, cache {}{}, activations {})\n",
                  device.name()->string_view(),
                  moert::humanBytes(double(memory.used)), ofAll,
                  moert::humanBytes(double(device.weight_bytes())),
                  moert::humanBytes(double(device.kv_bytes())),
                  device.kv_bytes() ? " for " + summary.kvRoom : "",
                  moert::humanBytes(double(device.arena_bytes())));
  }
  if (auto rate = summary.prefillRate())
    moetool::note("predicted prefill: {:.4g} tokens/s\n", *rate);
  if (auto rate = summary.decodeRate())
    moetool::note("predicted decode: {:.4g} tokens/s\n", *rate);
  if (auto rate = summary.batchRate())
    moetool::note("predicted decode of {} sequences: {:.4g} tokens/s in all\n",
                  plan.table().sequences(), *rate);
  return Status::ok();
}

/// Suggests the next command. A plan for this machine: chat; run with a text if
/// there is no chat template; bench if the plan only works on token ids. A plan
/// for another machine: explain.
Status noteNextStep(const CompileRequest &request,
                    const CompileReport &report) {
  if (report.output == "-")
    return Status::ok();
  MOE_ASSIGN_OR_RETURN(moert::Plan plan,
                       moert::Plan::fromBytes(report.plan, report.output));
  std::string path = moert::shellPath(report.output);
  const moert::fb::Tokenizer *tokenizer = plan.tokenizer();
  bool isForThisMachine =
      request.target == "native" && request.targetFile.empty();
  if (!isForThisMachine || !plan.checkMachine())
    moetool::noteNext("moec explain " + path);
  else if (!tokenizer)
    moetool::noteNext("moert bench " + path);
  else if (moert::text(tokenizer->chat_template()).empty())
    moetool::noteNext("moert run " + path + " -p 'Once upon a time'");
  else
    moetool::noteNext("moert chat " + path);
  return Status::ok();
}

Status run(Options &options) {
  MOE_RETURN_IF_ERROR(checkOptions(options));
  MOE_ASSIGN_OR_RETURN(
      options.request.place,
      readRules(options.request.place, *options.request.texts));
  std::optional<moetool::Progress> progress;
  std::string current; // The step that the progress line shows.
  // From the first bytes on, there are temporaries to remove.
  const std::atomic<bool> *interrupted = nullptr;
  options.request.progress = [&](const char *what, uint64_t done,
                                 uint64_t total) {
    if (!interrupted)
      interrupted = moetool::catchInterrupt();
    if (what != current)
      progress.emplace(current = what);
    progress->update(done, total);
    return !*interrupted;
  };
  if (moetool::stderrIsTerminal())
    options.request.measuring = [shown =
                                     false](const std::string &what) mutable {
      if (shown || !what.empty())
        moetool::redrawLine(what);
      shown = !what.empty();
    };
  MOE_ASSIGN_OR_RETURN(CompileReport report, compileModel(options.request));
  progress.reset();
  moetool::printText(report.text);
  if (options.request.verbose)
    for (const std::string &remark : report.remarks)
      moetool::note("remark: {}\n", remark);
  if (options.request.json)
    return printJson(report, options.request.emit);
  for (const std::string &note : report.notes)
    moetool::note("note: {}\n", note);
  if (options.request.emit != Emit::Fb)
    return Status::ok();
  MOE_RETURN_IF_ERROR(printSummary(report));
  if (report.packed.empty())
    moetool::note("wrote {}\n",
                  report.output == "-" ? "standard output" : report.output);
  else
    moetool::note("wrote {} and {} ({})\n", report.output, report.packed,
                  moert::humanBytes(double(report.packedBytes)));
  return options.calledBy.empty() ? noteNextStep(options.request, report)
                                  : Status::ok();
}

/// Returns a failure whose remedy is to compile differently with the remedy of
/// whoever called moec: to call it so.
Status forCaller(Status failure, const std::string &caller) {
  const moert::Remedy *remedy = failure.isOk() ? nullptr : failure.remedy();
  const auto *other =
      remedy ? std::get_if<moert::CompileCommand>(&remedy->command) : nullptr;
  if (!other || caller.empty())
    return failure;
  moert::OtherCommand command{{"moert", caller, other->model}};
  for (const auto &[name, value, kind] : other->options) {
    command.words.push_back(name);
    if (kind != moert::OptionKind::Flag)
      command.words.push_back(value);
  }
  moert::Remedy changed{remedy->suggestion, std::move(command), remedy->detail};
  return std::move(failure).with(std::move(changed));
}
} // namespace

void addCompileCommand(moetool::Tool &tool) {
  auto options = std::make_shared<Options>();
  CLI::App *command = tool.command(
      "compile",
      "Compile a GGUF model into a plan; without options, for this "
      "machine and into plan.fb",
      [options] { return forCaller(run(*options), options->calledBy); });
  moetool::addModelPath(*command, rows::model, options->request.model);
  options->given = addCompileOptions(*command, options->request);
  moetool::addOption(*command, rows::calledBy, options->calledBy);
}

} // namespace moec
