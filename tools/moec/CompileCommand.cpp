#include "compiler/Driver/Driver.h"
#include "compiler/Driver/PlacedRules.h"
#include "compiler/Explain/ExplainJson.h"
#include "compiler/Explain/Ladder.h"
#include "runtime/Plan.h"
#include "runtime/PlanAccess.h"
#include "runtime/base/Text.h"
#include "tools/common/Force.h"
#include "tools/common/Interrupt.h"
#include "tools/common/Json.h"
#include "tools/common/Progress.h"
#include "tools/moec/Commands.h"
#include "tools/moec/ShapingOptions.h"

#include <memory>
#include <optional>

using moert::Status;

namespace moec {

namespace {
struct Options {
  CompileRequest request;
  bool json = false, noTokenizer = false;
  /// Those that --emit moe does not look at, and that are for files alone. A
  /// target does no harm: scripts give it whatever they ask for.
  std::vector<const CLI::Option *> shaping, ofFiles;
};

Status checkOptions(const Options &options) {
  const CompileRequest &request = options.request;
  bool textToStdout = request.emit != Emit::Fb && request.output.empty();
  MOE_RETURN_IF_ERROR(moetool::checkJsonAlone(
      options.json, textToStdout ? "-" : request.output, "-o", "output"));
  if (request.weights == "reference" && !request.weightsFile.empty())
    return Status(moert::StatusCode::Usage,
                  "--weights-file names a file that --weights reference does "
                  "not write; leave one of them out");
  if (request.emit != Emit::Fb)
    for (const CLI::Option *option : options.ofFiles)
      if (option->count() > 0)
        return Status(moert::StatusCode::Usage,
                      fmt::format("{} is for plan files: the text that --emit "
                                  "writes has nothing of it; leave one of them "
                                  "out",
                                  option->get_name()));
  if (request.emit != Emit::Moe)
    return Status::ok();
  for (const CLI::Option *option : options.shaping)
    if (option->count() > 0)
      return Status(moert::StatusCode::Usage,
                    fmt::format("{} changes nothing with --emit moe, which "
                                "writes the model as it was imported; leave "
                                "one of them out",
                                option->get_name()));
  return Status::ok();
}

/// The report as one JSON object.
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

/// Does it fit, and how fast: what a user wants to know before loading.
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
    moetool::note("{}: {} of {} (weights {}, cache {}{}, activations {})\n",
                  device.name()->string_view(),
                  moert::humanBytes(double(memory.used)),
                  moert::humanBytes(double(device.memory_bytes())),
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

Status run(Options &options) {
  MOE_RETURN_IF_ERROR(checkOptions(options));
  options.request.tokenizer = !options.noTokenizer;
  MOE_ASSIGN_OR_RETURN(options.request.place, readRules(options.request.place, *options.request.texts));
  if (options.json)
    options.request.toolOptions = "--json";
  std::optional<moetool::Progress> progress;
  std::string current; // what it shows
  // From the first bytes on there is something to clean up.
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
  if (options.json)
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
  return Status::ok();
}
} // namespace

/// Follows --ctx.
static void addLadder(CLI::App &command, Options &options) {
  options.ofFiles.push_back(
      command
          .add_option_function<std::string>(
              "--ladder",
              [&options](const std::string &text) {
                auto ladder = parseLadder(text);
                if (!ladder)
                  throw CLI::ValidationError(ladder.status().message());
                options.request.ladder = *std::move(ladder);
              },
              "Contexts, such as 4096,32768,131072, of which one plan file has "
              "a rung each; 4096@8GiB is one for so much memory of each GPU. "
              "moert takes what is asked for, or what memory has room for")
          ->group("Model")
          ->type_name("CTX[@SIZE],...")
          ->excludes("--ctx"));
}

void addCompileCommand(moetool::Tool &tool) {
  auto options = std::make_shared<Options>();
  CompileRequest &r = options->request;
  CLI::App *command =
      tool.command("compile", "Compile a GGUF model into a plan",
                   [options] { return run(*options); });
  command
      ->add_option("model", r.model,
                   "The GGUF file, or any part of a split one")
      ->required();

  auto add = [&](const char *group, const char *name, std::string &value,
                 const char *help) {
    return command->add_option(name, value, help)
        ->group(group)
        ->capture_default_str();
  };
  CLI::Option *target =
      add("Machine", "-t,--target", r.target,
          "Machine to compile for: 4090+xeon, 4090:20GiB+xeon:200GiB, "
          "2x3090:pcie3+epyc-9654, xeon, native ...");
  add("Machine", "--target-file", r.targetFile,
      "Description to use instead (see moec targets NAME --json)")
      ->excludes(target);
  options->ofFiles.push_back(
      command
          ->add_option("--gpu-arch", r.gpuArchs,
                       "Compute capabilities, such as 86,90,120, that kernels "
                       "are compiled for besides those of the machine's GPUs")
          ->group("Machine")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->check(CLI::Range(10, 9999))
          ->type_name("N,..."));
  options->ofFiles.push_back(
      add("Machine", "--nvrtc", r.nvrtc,
          "NVIDIA's compiler of kernels, a libnvrtc.so [the newest that is "
          "found]"));

  for (const CLI::Option *option : addShapingOptions(*command, r))
    options->shaping.push_back(option);
  addLadder(*command, *options);
  options->ofFiles.push_back(
      command
          ->add_flag("--no-tokenizer", options->noTokenizer,
                     "Leave out the vocabulary, which moert may not be able to "
                     "use: the plan then works on token ids alone")
          ->group("Model"));
  options->ofFiles.push_back(
      command
          ->add_option("--pre", r.pre,
                       "How text is cut into words before it is tokenized, in "
                       "place of what the model file says: qwen2, llama-bpe, "
                       "gpt-4o, ...")
          ->type_name("NAME")
          ->excludes("--no-tokenizer")
          ->group("Model"));

  options->ofFiles.push_back(
      add("Decisions", "--checksums", r.checksums,
          "Of weights that stay in the GGUF: full lets moert verify check each "
          "of their bytes, and reads them all; sampled is some blocks; auto: "
          "full where weights are packed or 8 GiB are to be read at most")
          ->check(CLI::IsMember({"auto", "full", "sampled"})));

  add("Output", "-o,--output", r.output,
      "File to write; -: standard output [plan.fb; text: -]");
  moetool::addForce(*command, r.force)->group("Output");
  options->ofFiles.push_back(
      add("Output", "--weights-file", r.weightsFile,
          "Where to write packed weights, on another disk for example [beside "
          "the plan: plan.weights]"));
  command
      ->add_option_function<std::string>(
          "--emit",
          [&r](const std::string &text) {
            r.emit = text == "moe"      ? Emit::Moe
                     : text == "placed" ? Emit::Placed
                     : text == "plan"   ? Emit::Plan
                     : text == "rules"  ? Emit::Rules
                                        : Emit::Fb;
          },
          "What to write")
      ->group("Output")
      ->check(CLI::IsMember({"moe", "placed", "rules", "plan", "fb"}))
      ->default_str("fb");
  command
      ->add_flag_callback(
          "--print-rules", [&r] { r.emit = Emit::Rules; },
          "Write the placement as rules to edit and to give back as --place "
          "@FILE; as --emit rules")
      ->group("Output");
  options->shaping.push_back(add("Output", "--dump-phases", r.dumpFolder,
                                 "Folder for the IR after each pass"));
  command
      ->add_flag("-v,--verbose", r.verbose,
                 "Show what the passes remark; the reason of every op is in "
                 "moec explain, every step in --dump-phases")
      ->group("Output");
  command
      ->add_flag("--json", options->json,
                 "Report as one JSON object on standard output")
      ->group("Output");
}

} // namespace moec
