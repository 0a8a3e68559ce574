// moert info: shows properties and needs of a plan.
#include "runtime/base/Text.h"
#include "runtime/chat/ChatFormat.h"
#include "runtime/device/cpu/ThreadCount.h"
#include "runtime/device/cuda/CudaLinks.h"
#include "runtime/device/cuda/CudaNeed.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/PlanTokenizer.h"
#include "runtime/plan/PlanWeights.h"
#include "tools/common/Json.h"
#include "tools/moert/Commands.h"
#include "tools/moert/Shared.h"

#include <fmt/ranges.h>
#include <memory>

namespace moert {

namespace {
using Json = nlohmann::ordered_json;

struct InfoFlags {
  EngineFlags engine;
  bool json = false;
};

std::string string(const flatbuffers::String *value) {
  return std::string(text(value));
}

Json cpuJson(const fb::Device &device) {
  return {{"name", string(device.name())},
          {"kind", "cpu"},
          {"isa", string(device.isa())},
          {"kv_bytes", device.kv_bytes()},
          {"activation_bytes", device.arena_bytes()},
          {"scratch_bytes", bytesPerWorker(device)},
          {"weight_bytes", device.weight_bytes()}};
}

Json gpuJson(const fb::Plan &plan, uint32_t index) {
  const fb::Device &device = *plan.devices()->Get(index);
  CudaNeed need = cudaNeed(plan, index);
  return {
      {"name", string(device.name())},
      {"kind", "cuda"},
      {"isa", string(device.isa())},
      {"arch", device.arch()},
      {"budget_bytes", device.memory_bytes()},
      {"needed_bytes", need.total()},
      {"weight_bytes", need.weights},
      {"kv_bytes", need.kv},
      {"activation_bytes", need.activations},
      {"workspace_bytes", need.workspace},
      {"slot_bytes", need.slots},
      {"constant_bytes", need.constants},
      {"step_bytes", need.steps},
      {"pinned",
       {{"staging_bytes", need.staging},
        {"ring_bytes", need.rings},
        {"streamed_weight_bytes", device.shares_memory() ? 0 : need.mapped},
        {"shared_weight_bytes", device.shares_memory() ? need.mapped : 0}}}};
}

/// Describes the memory needed to run with the default number of threads.
Json describeMemory(const Plan &plan) {
  // A request of no number cannot fail.
  int workers = workersFor(plan.table(), 0, readCpuBudget())->most;
  MemoryFit fit =
      memoryFit(plan, workers, /*copyWeights=*/false, hostMemoryLimit());
  const MemoryNeed &need = fit.need;
  return {{"weight_bytes", need.weights},
          {"kv_bytes", need.kv},
          {"activation_bytes", need.activations},
          {"workers", need.threads},
          {"worker_bytes", need.workers},
          {"needed_bytes", need.total()},
          {"available_bytes", fit.limit.bytes},
          {"limit", fit.limit.isControlGroup ? "control group" : "machine"},
          {"fits", fit.fits()},
          {"paged_bytes_per_token", pagedBytesPerToken(plan, fit)}};
}

/// How the model speaks, as lines with a name and a text (Speech::rows());
/// empty without a tokenizer or a chat template.
Json describeSpeech(const Plan &plan) {
  Json rows = Json::array();
  StatusOr<Tokenizer> tokenizer = planTokenizer(plan);
  if (!tokenizer)
    return rows;
  if (StatusOr<ChatFormat> chat = ChatFormat::create(plan, *tokenizer))
    for (const auto &[name, value] : chat->speech()->rows())
      rows.push_back({{"name", name}, {"text", value}});
  return rows;
}

/// Adds whether moert can run the plan here, by opening it as moert would.
void addVerdict(const Plan &plan, const EngineOptions &options, Json &object) {
  if (plan.checkMachine())
    object["memory"] = describeMemory(plan);
  Status opened = Engine::create(plan, options).status();
  object["runs_here"] = opened.isOk();
  if (!opened.isOk())
    object["why_not"] = moetool::fullMessage(opened);
  Status text = planTokenizer(plan).status();
  object["takes_text"] = text.isOk();
  if (!text.isOk())
    object["why_no_text"] = moetool::fullMessage(text);
}

Json describe(const Plan &plan, const EngineOptions &options,
              const RungChoice &rung) {
  const fb::Plan &table = plan.table();
  Json object = {{"plan", plan.path()},
                 {"model", string(table.model_name())},
                 {"architecture", string(table.architecture())},
                 {"parameters", table.parameters()},
                 {"compiler", string(table.compiler())},
                 {"options", string(table.options())},
                 {"target", string(table.target())},
                 {"context", table.context()},
                 {"sequences", table.sequences()},
                 {"kv_rows", kvRows(table)},
                 {"kv_types", kvTypeNames(table)},
                 {"layers", table.layers()},
                 {"hidden", table.hidden()},
                 {"vocab", table.vocab()},
                 {"labels", labelsOf(table)},
                 {"experts", table.experts()},
                 {"experts_used", table.experts_used()},
                 {"weight_bytes", weightBytes(plan)},
                 {"weight_formats", bytesByFormat(plan)}};
  if (rung.number > 0)
    object["rung"] = {
        {"number", rung.number}, {"of", plan.rungs()}, {"why", rung.why}};
  for (uint32_t i = 0; i < count(table.devices()); ++i) {
    const fb::Device &device = *table.devices()->Get(i);
    object["devices"].push_back(device.kind() == fb::DeviceKind::Cuda
                                    ? gpuJson(table, i)
                                    : cpuJson(device));
  }
  object["link_bytes"] = cudaLinkBytes(table);
  for (const fb::Phase *phase : *table.phases())
    object["phases"].push_back(
        {{"name", string(phase->name())},
         {"min_tokens", phase->min_tokens()},
         {"max_tokens", phase->max_tokens()},
         {"instructions", count(phase->instructions())}});
  for (uint32_t i = 0; i < count(table.files()); ++i) {
    const fb::File &file = *table.files()->Get(i);
    object["files"].push_back({{"kind", fb::EnumNameFileKind(file.kind())},
                               {"path", string(file.path())},
                               {"bytes", file.bytes()}});
  }
  object["notes"] = Json::array();
  for (uint32_t i = 0; i < count(table.notes()); ++i)
    object["notes"].push_back(string(table.notes()->Get(i)));
  object["speech"] = describeSpeech(plan);
  addVerdict(plan, options, object);
  return object;
}

std::string bytes(const Json &value) { return humanBytes(value.get<double>()); }

std::string cpuText(const Json &device) {
  return fmt::format(
      "{} ({}): weights {}, KV cache {}, activations {}, "
      "scratch {} per worker",
      device["name"].get<std::string>(), device["isa"].get<std::string>(),
      bytes(device["weight_bytes"]), bytes(device["kv_bytes"]),
      bytes(device["activation_bytes"]), bytes(device["scratch_bytes"]));
}

std::string gpuText(const Json &device) {
  std::string text =
      fmt::format("{} (sm_{}): {}", device["name"].get<std::string>(),
                  device["arch"].get<int>(), bytes(device["needed_bytes"]));
  if (device["budget_bytes"] > 0)
    text += " of " + bytes(device["budget_bytes"]);
  text += fmt::format(
      ": weights {}, KV cache {}, activations {}, workspace {}{}, constants "
      "and steps {}",
      bytes(device["weight_bytes"]), bytes(device["kv_bytes"]),
      bytes(device["activation_bytes"]), bytes(device["workspace_bytes"]),
      device["slot_bytes"] > 0
          ? fmt::format(" ({} of it slots for streamed experts)",
                        bytes(device["slot_bytes"]))
          : "",
      humanBytes(device["constant_bytes"].get<double>() +
                 device["step_bytes"].get<double>()));
  const Json &pinned = device["pinned"];
  text += "; pinned host memory: " + bytes(pinned["staging_bytes"]) +
          " for input and output";
  if (pinned["ring_bytes"] > 0)
    text += ", " + bytes(pinned["ring_bytes"]) +
            " through which experts are streamed";
  if (pinned["streamed_weight_bytes"] > 0)
    text +=
        ", " + bytes(pinned["streamed_weight_bytes"]) + " of streamed weights";
  if (pinned["shared_weight_bytes"] > 0)
    text += ", " + bytes(pinned["shared_weight_bytes"]) +
            " of weights in the memory that it shares with the host";
  return text;
}

void printInfo(const Json &info) {
  auto line = [](std::string_view name, const std::string &value) {
    moetool::print("{:<13}{}\n", name, value);
  };
  line("model", fmt::format("{} ({}, {:.1f} M parameters)",
                            info["model"].get<std::string>(),
                            info["architecture"].get<std::string>(),
                            info["parameters"].get<double>() / 1e6));
  line("layers",
       fmt::format("{}, hidden size {}, vocabulary {}",
                   info["layers"].get<int>(), info["hidden"].get<int64_t>(),
                   info["vocab"].get<int64_t>()));
  line("experts",
       fmt::format("{}, {} used per token", info["experts"].get<int>(),
                   info["experts_used"].get<int>()));
  if (const Json &labels = info["labels"]; !labels.empty())
    line("classifier",
         fmt::format("{}",
                     fmt::join(labels.get<std::vector<std::string>>(), ", ")));
  if (info.contains("rung"))
    line("rung", info["rung"]["why"].get<std::string>());
  line("context", counted(uint64_t(info["context"].get<int>()), "token"));
  if (int sequences = info["sequences"].get<int>(); sequences > 1)
    line("sequences", fmt::format("{} decoded together", sequences));
  line("KV cache",
       fmt::format("{} tokens in {}", info["kv_rows"].get<int64_t>(),
                   info["kv_types"].get<std::string>()));
  std::string formats;
  for (const auto &[format, size] : info["weight_formats"].items())
    formats += fmt::format(", {} {}", format, bytes(size));
  line("weights", bytes(info["weight_bytes"]) + formats);
  line("target", info["target"].get<std::string>());
  line("compiler", fmt::format("{} {}", info["compiler"].get<std::string>(),
                               info["options"].get<std::string>()));
  for (const Json &device : info["devices"])
    line("device",
         device["kind"] == "cuda" ? gpuText(device) : cpuText(device));
  if (info["link_bytes"] > 0)
    line("links", fmt::format("{} of pinned host memory for copies between "
                              "GPUs",
                              bytes(info["link_bytes"])));
  for (const Json &phase : info["phases"])
    line("phase", fmt::format("{}: {} to {} tokens, {} instructions",
                              phase["name"].get<std::string>(),
                              phase["min_tokens"].get<int>(),
                              phase["max_tokens"].get<int>(),
                              phase["instructions"].get<int>()));
  if (info.contains("files"))
    for (const Json &file : info["files"])
      line("file", fmt::format("{} ({})",
                               file["kind"] == "Loaded"
                                   ? "laid out in memory while it loads"
                                   : file["path"].get<std::string>(),
                               bytes(file["bytes"])));
  for (const Json &row : info["speech"])
    line(row["name"].get<std::string>(), row["text"].get<std::string>());
  for (const Json &note : info["notes"])
    line("note", note.get<std::string>());
  if (info.contains("memory")) {
    const Json &memory = info["memory"];
    line("memory",
         fmt::format(
             "{}: weights {}, KV cache {}, activations {}, {} {}; "
             "this process may use {} ({})",
             bytes(memory["needed_bytes"]), bytes(memory["weight_bytes"]),
             bytes(memory["kv_bytes"]), bytes(memory["activation_bytes"]),
             counted(memory["workers"].get<uint64_t>(), "worker"),
             bytes(memory["worker_bytes"]), bytes(memory["available_bytes"]),
             memory["limit"] == "machine"
                 ? "the machine's memory, including what other programs use"
                 : "the limit of its control group"));
  }
  bool takesText = info["takes_text"].get<bool>();
  if (!takesText)
    line("text", "no: " + info["why_no_text"].get<std::string>());
  line("runs here",
       !info["runs_here"].get<bool>()
           ? "no: " + moetool::pasteable(info["why_not"].get<std::string>())
       : takesText ? "yes"
                   : "on token ids alone: run, perplexity and tokenize need a "
                     "tokenizer, logits, bench and profile do not");
}

Status showInfo(const InfoFlags &flags) {
  MOE_ASSIGN_OR_RETURN(Plan plan, Plan::load(flags.engine.plan));
  EngineOptions options = flags.engine.options;
  LadderMachine machine{.threads = resolveThreads(0, readCpuBudget())->most,
                        .models = options.files.models};
  MOE_ASSIGN_OR_RETURN(RungChoice rung, takeRung(plan, options.rung, machine));
  options.rung.number = rung.number;
  Json info = describe(plan, options, rung);
  if (flags.json)
    moetool::printDocument(info);
  else
    printInfo(info);
  return Status::ok();
}
} // namespace

void addInfoCommand(moetool::Tool &tool) {
  auto flags = std::make_shared<InfoFlags>();
  CLI::App *command =
      tool.command("info", "Show what a plan is, needs, and was made from",
                   [flags] { return showInfo(*flags); });
  flags->engine.addPlan(*command);
  flags->engine.addModel(*command);
  flags->engine.addRung(*command);
  moetool::addOption(*command, rows::json, flags->json);
}

} // namespace moert
