#include "compiler/Explain/ExplainJson.h"

#include "compiler/Explain/Collapse.h"
#include "compiler/Explain/Explain.h"
#include "compiler/Explain/GpuCode.h"
#include "compiler/Explain/LadderTable.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/States.h"
#include "runtime/schema/PlanFields.h"

#include <algorithm>
#include <cctype>

using namespace moert;

namespace moec {

using Json = nlohmann::ordered_json;

namespace {

template <typename T> Json orNull(const std::optional<T> &value) {
  return value ? Json(*value) : Json();
}

/// Returns the use of memory nodes in the words of --numa, such as "split".
std::string nodeUse(const fb::Device &device) {
  std::string name = fb::EnumNameNodeUse(device.node_use());
  std::ranges::transform(name, name.begin(), [](char c) {
    return char(std::tolower(static_cast<unsigned char>(c)));
  });
  return name;
}

std::string string(const flatbuffers::String *value) {
  return std::string(text(value));
}

/// Adds the bools of a table, under their names in plan.fbs.
template <class T> void addFlags(Json &json, const T &table) {
  forEachField<T>([&](auto field) {
    if constexpr (std::is_same_v<typename decltype(field)::Type, bool>)
      json[std::string(field.name)] = field.of(table);
  });
}

} // namespace

Json deviceJson(const DeviceMemory &memory) {
  const fb::Device &device = *memory.device;
  bool hasBudget = device.memory_bytes() > 0;
  Json json = {
      {"name", string(device.name())},
      {"kind", device.kind() == fb::DeviceKind::Cuda ? "cuda" : "cpu"},
      {"isa", string(device.isa())},
      {"arch", device.arch()},
      {"memory_nodes", device.nodes()},
      {"node_use", nodeUse(device)},
      {"weight_bytes", device.weight_bytes()},
      {"kv_bytes", device.kv_bytes()},
      {"activation_bytes", device.arena_bytes()},
      {"scratch_bytes", memory.scratch},
      {"workers", device.cores()},
      {"used_bytes", memory.used},
      {"budget_bytes", hasBudget ? Json(device.memory_bytes()) : Json()},
      {"used_fraction", orNull(memory.usedFraction())},
      {"state", std::string(memory.state())}};
  addFlags(json, device);
  return json;
}

Json costJson(const OpCost &op) {
  return {{"device", std::string(op.device)},
          {"kernel", std::string(op.kernel)},
          {"flops", op.flops},
          {"weight_bytes", op.weightBytes},
          {"activation_bytes", op.activationBytes},
          {"kv_bytes", op.kvBytes},
          {"memory_bytes", op.heldBytes},
          {"intensity", orNull(op.intensity())},
          {"seconds", op.seconds}};
}

Json rejectedJson(const OpCost &op, bool anyLayer) {
  auto textOf = [&](std::string_view text) {
    return anyLayer ? ofAnyLayer(text, op) : std::string(text);
  };
  Json list = Json::array();
  for (const RejectedCost &rejected : op.rejected)
    list.push_back({{"kind", std::string(rejected.kind)},
                    {"name", std::string(rejected.name)},
                    {"of", textOf(rejected.of)},
                    {"seconds", orNull(rejected.seconds)},
                    {"chosen", std::string(rejected.chosen)},
                    {"chosen_seconds", rejected.chosenSeconds},
                    {"reason", textOf(rejected.reason)}});
  return list;
}

Json phaseJson(const PhaseCost &phase) {
  Json json = {{"name", std::string(phase.name)},
               {"min_tokens", phase.minTokens},
               {"max_tokens", phase.maxTokens},
               {"typical_tokens", phase.step.tokens},
               {"typical_cached", phase.step.cached},
               {"flops", phase.flops},
               {"weight_bytes", phase.weightBytes},
               {"seconds", phase.seconds}};
  json["device_seconds"] = Json::object();
  for (const auto &[device, seconds] : phase.deviceSeconds)
    json["device_seconds"][std::string(device)] = seconds;
  return json;
}

Json queuesJson(const Timeline &timeline) {
  Json json = Json::array();
  for (const TimelineQueue &queue : timeline.queues)
    json.push_back({{"device", std::string(queue.device)},
                    {"kind", queue.copies ? "copy" : "compute"},
                    {"busy_seconds", queue.busy}});
  return json;
}

namespace {

std::string nameOf(const OpCost &op) {
  return OpNames(op.part, op.layer).name();
}

Json opJson(const OpCost &op) {
  Json json = {{"op", nameOf(op)},
               {"part", std::string(op.part)},
               {"layer", op.layer < 0 ? Json() : Json(op.layer)}};
  json.update(costJson(op));
  json["reason"] = std::string(op.reason);
  json["rejected"] = rejectedJson(op, /*anyLayer=*/false);
  return json;
}

/// Returns a timeline in seconds from the start of the step.
Json timelineJson(const Timeline &timeline, const PhaseCost &phase) {
  Json json = {{"seconds", timeline.seconds},
               {"queues", queuesJson(timeline)},
               {"instructions", Json::array()}};
  for (const TimelineSpan &span : timeline.spans)
    json["instructions"].push_back({{"op", nameOf(phase.ops[span.op])},
                                    {"queue", span.queue},
                                    {"start", span.start},
                                    {"seconds", span.seconds}});
  return json;
}

Json kernelJson(const KernelUse &use) {
  auto ofImage = [&](int32_t (fb::Image::*number)() const) {
    return use.image ? Json((use.image->*number)()) : Json();
  };
  return {{"kernel", string(use.module->entry())},
          {"file", string(use.module->file())},
          {"device", std::string(use.device)},
          {"arch", ofImage(&fb::Image::arch)},
          {"registers", ofImage(&fb::Image::registers)},
          {"spilled_bytes", ofImage(&fb::Image::spilled_bytes)},
          {"stack_bytes", ofImage(&fb::Image::stack_bytes)},
          {"shared_bytes", use.shared},
          {"threads", use.threads},
          {"warps_per_multiprocessor", use.image ? Json(use.warps) : Json()},
          {"most_warps", use.mostWarps},
          {"launches", use.launches}};
}

/// Returns null for a plan without GPUs.
Json gpuJson(const GpuCode &code) {
  if (code.kernels.empty())
    return Json();
  Json json = {{"nvrtc", std::string(code.nvrtc)},
               {"archs", code.archs},
               {"bytes", code.bytes}};
  json["launches"] = Json::object();
  for (const auto &[phase, launched] : code.launches)
    json["launches"][std::string(phase)] = launched;
  json["kernels"] = Json::array();
  for (const KernelUse &use : code.kernels)
    json["kernels"].push_back(kernelJson(use));
  return json;
}

} // namespace

Json planJson(const fb::Plan &plan, const ExplainSummary &summary) {
  const PhaseCost *prefill = summary.prefill();
  Json json = {{"model", string(plan.model_name())},
               {"architecture", string(plan.architecture())},
               {"parameters", plan.parameters()},
               {"layers", plan.layers()},
               {"hidden", plan.hidden()},
               {"vocab", plan.vocab()},
               {"experts", plan.experts()},
               {"experts_used", plan.experts_used()},
               {"target", string(plan.target())},
               {"context", plan.context()},
               {"sequences", plan.sequences()},
               {"ubatch", prefill ? Json(prefill->maxTokens) : Json()},
               {"compiler", string(plan.compiler())},
               {"options", string(plan.options())}};
  json["files"] = Json::array();
  for (uint32_t i = 0; i < count(plan.files()); ++i) {
    const fb::File *file = plan.files()->Get(i);
    constexpr const char *kinds[] = {"model", "packed", "loaded"};
    json["files"].push_back({{"path", string(file->path())},
                             {"kind", kinds[int(file->kind())]},
                             {"bytes", file->bytes()}});
  }
  json["devices"] = Json::array();
  for (const DeviceMemory &memory : summary.devices)
    json["devices"].push_back(deviceJson(memory));
  json["kv_bytes_per_token"] = summary.kvBytesPerToken;
  json["kv_bytes"] = summary.kvBytes;
  json["kv_rows"] = kvRows(plan);
  json["kv_types"] = Json::array();
  json["state_bytes"] = summary.stateBytes;
  json["file_table_bytes"] = summary.tableBytes;
  json["window_bytes"] = summary.windowBytes;
  json["window_rows"] = summary.windowRows;
  json["state_rows"] = stateRows(plan);
  for (uint32_t i = 0; i < count(plan.kv()); ++i)
    if (!plan.kv()->Get(i)->row_per_sequence() ||
        moert::ringRowWidth(plan, i) > 0)
      json["kv_types"].push_back({{"layer", plan.kv()->Get(i)->layer()},
                                  {"type", moek::kvTypeName(moek::KvType(
                                               plan.kv()->Get(i)->type()))}});
  json["prefill_tokens_per_second"] = orNull(summary.prefillRate());
  json["decode_tokens_per_second"] = orNull(summary.decodeRate());
  json["batch_tokens_per_second"] = orNull(summary.batchRate());
  json["notes"] = Json::array();
  for (std::string_view note : summary.notes)
    json["notes"].push_back(note);
  return json;
}

namespace {
Json wholeJson(const fb::Plan &plan) {
  ExplainSummary summary(plan);
  Json json = planJson(plan, summary);
  json["phases"] = Json::array();
  for (const PhaseCost &phase : summary.phases) {
    Json &added = json["phases"].emplace_back(phaseJson(phase));
    for (const fb::Phase *table : *plan.phases())
      if (text(table->name()) == phase.name)
        addFlags(added, *table);
    added["ops"] = Json::array();
    for (const OpCost &op : phase.ops)
      added["ops"].push_back(opJson(op));
    added["timeline"] = timelineJson(Timeline(plan, phase), phase);
  }
  json["gpu_code"] = gpuJson(GpuCode(plan));
  return json;
}

std::string textOf(const Json &json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}
} // namespace

std::string explainJson(const fb::Plan &plan) {
  return textOf(wholeJson(plan));
}

std::string explainJson(const Plan &plan) {
  Json json = wholeJson(plan.table());
  if (plan.rungs() > 0) {
    json["rung"] = plan.chosen();
    json["rungs"] = ladderJson(plan);
  }
  return textOf(json);
}

} // namespace moec
