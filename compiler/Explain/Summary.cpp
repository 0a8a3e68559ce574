#include "compiler/Explain/Summary.h"

#include "kernels/KvCache.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/States.h"

#include <algorithm>
#include <limits>
#include <map>

using moert::bytesPerWorker;
using moert::Checked;
using moert::count;
using moert::PhaseKind;
using moert::text;
namespace fb = moert::fb;

namespace moec {

namespace {

/// Replaces values that are not costs by 0. The bounds are far outside of any
/// machine's costs, and small enough that sums and ratios of millions of values
/// stay finite. NaN fails both comparisons.
double costOf(double value) {
  return value > 1e-100 && value < 1e100 ? value : 0;
}

RejectedCost readRejected(const fb::Rejected &entry) {
  std::optional<double> seconds;
  if (entry.seconds() >= 0)
    seconds = costOf(entry.seconds());
  return {text(entry.kind()),
          text(entry.name()),
          text(entry.of()),
          text(entry.chosen()),
          text(entry.reason()),
          seconds,
          costOf(entry.chosen_seconds())};
}

OpCost readOp(const fb::Explain &entry) {
  OpCost op;
  op.part = text(entry.part());
  op.layer = std::max(entry.layer(), -1);
  op.device = text(entry.device());
  op.kernel = text(entry.kernel());
  op.reason = text(entry.reason());
  op.flops = costOf(entry.flops());
  op.weightBytes = costOf(entry.weight_bytes());
  op.activationBytes = costOf(entry.activation_bytes());
  op.kvBytes = costOf(entry.kv_bytes());
  // The overlap entry has negative seconds: the time that is saved.
  op.seconds = op.part == kOverlapPart ? -costOf(-entry.seconds())
                                       : costOf(entry.seconds());
  for (uint32_t i = 0; i < count(entry.rejected()); ++i)
    op.rejected.push_back(readRejected(*entry.rejected()->Get(i)));
  return op;
}

uint64_t bytesOf(Checked bytes) {
  return bytes.valid() ? bytes.value() : std::numeric_limits<uint64_t>::max();
}

/// Returns the element for which `key` is true; appends one if there is none.
template <class List, class Key, class Make>
auto &findOrAdd(List &list, Key key, Make make) {
  auto it = std::find_if(list.begin(), list.end(), key);
  return it != list.end() ? *it : list.emplace_back(make());
}

} // namespace

std::optional<double> OpCost::intensity() const {
  const double stored = weightBytes + kvBytes;
  const double bytes = stored > 0 ? stored : activationBytes;
  return bytes > 0 ? std::optional(flops / bytes) : std::nullopt;
}

std::optional<double> DeviceMemory::usedFraction() const {
  if (device->memory_bytes() == 0)
    return std::nullopt;
  return double(used) / double(device->memory_bytes());
}

std::string_view DeviceMemory::state() const {
  std::optional<double> fraction = usedFraction();
  if (!fraction)
    return "unknown";
  return used > device->memory_bytes() ? "over"
         : *fraction > 0.95            ? "tight"
                                       : "fits";
}

ExplainSummary::ExplainSummary(const fb::Plan &plan) {
  addMemory(plan);
  addCosts(plan);
  addNotes(plan);
}

void ExplainSummary::addNotes(const fb::Plan &plan) {
  for (uint32_t i = 0; i < count(plan.notes()); ++i)
    notes.push_back(text(plan.notes()->Get(i)));
  // A GPU without memory has no work.
  for (uint32_t i = 0; i < count(plan.devices()); ++i)
    if (const fb::Device &device = *plan.devices()->Get(i);
        device.kind() == fb::DeviceKind::Cuda &&
        device.arena_bytes() + device.weight_bytes() + device.kv_bytes() > 0) {
      notes.push_back(moert::kGpuPlanNote);
      return;
    }
}

void ExplainSummary::addMemory(const fb::Plan &plan) {
  for (uint32_t i = 0; i < count(plan.devices()); ++i) {
    const fb::Device *device = plan.devices()->Get(i);
    // In a damaged plan the product may overflow.
    Checked scratch =
        Checked(bytesPerWorker(*device)) * Checked(device->cores()) +
        Checked(device->workspace_bytes());
    Checked used = Checked(device->weight_bytes()) +
                   Checked(device->kv_bytes()) +
                   Checked(device->arena_bytes()) + scratch;
    devices.push_back({device, bytesOf(scratch), bytesOf(used)});
  }
  Checked shared(0);
  for (const DeviceMemory &memory : devices)
    if (memory.device->shares_memory())
      shared = shared + Checked(memory.used);
  for (DeviceMemory &memory : devices)
    if (memory.device->kind() == fb::DeviceKind::Cpu) {
      memory.usedByGpus = bytesOf(shared);
      memory.used = bytesOf(Checked(memory.used) + shared);
    }
  for (uint32_t i = 0; i < count(plan.residency()); ++i)
    if (const fb::Residency &residency = *plan.residency()->Get(i);
        residency.mode() == fb::ResidencyMode::File)
      tableBytes +=
          double(moert::bytesOfRows(*plan.weights()->Get(residency.weight())));
  kvRoom = moert::kvRoom(plan);
  for (uint32_t i = 0; i < count(plan.kv()); ++i) {
    const fb::Kv *kv = plan.kv()->Get(i);
    auto type = moek::KvType(kv->type());
    if (kv->row_per_sequence()) {
      int64_t width = moert::ringRowWidth(plan, i);
      (width > 0 ? windowBytes : stateBytes) += double(moert::cacheBytes(*kv));
      if (width > 0) {
        ++windowLayers;
        windowRows = std::max(windowRows, kv->width() / width);
      }
      continue;
    }
    kvBytesPerToken += double(moek::kvRowBytes(type, kv->width()));
    kvBytes += double(moek::kvBytes(type, kv->width(), kv->capacity()));
  }
}

/// Returns OpCost::heldBytes of each entry of the plan's explanation.
std::vector<double> ExplainSummary::heldBytes(const fb::Plan &plan) {
  std::vector<double> held(count(plan.explanation()));
  for (uint32_t i = 0; i < count(plan.phases()); ++i) {
    const fb::Phase &phase = *plan.phases()->Get(i);
    // Several ops use a cache. It counts to the one that reads most of it.
    std::map<uint32_t, uint32_t> readerOf;
    auto read = [&](uint32_t entry) {
      return plan.explanation()->Get(entry)->kv_bytes();
    };
    for (uint32_t j = 0; j < count(phase.instructions()); ++j) {
      const fb::Instruction &instruction = *phase.instructions()->Get(j);
      const uint32_t entry = instruction.explain();
      if (entry >= held.size())
        continue;
      // Work::again says which part of the weights each token reads.
      if (const fb::Work *work = instruction.work();
          work && work->again() >= 0 && work->again() < 1)
        held[entry] += costOf(work->first_bytes() / (1 - work->again()));
      for (uint32_t k = 0; k < count(instruction.operands()); ++k)
        if (const fb::Operand &operand = *instruction.operands()->Get(k);
            operand.kind() == fb::OperandKind::Kv &&
            operand.index() < count(plan.kv())) {
          auto [at, isNew] = readerOf.try_emplace(operand.index(), entry);
          if (!isNew && read(entry) > read(at->second))
            at->second = entry;
        }
    }
    for (auto [kv, entry] : readerOf)
      held[entry] += double(moert::cacheBytes(*plan.kv()->Get(kv)));
  }
  return held;
}

void ExplainSummary::addCosts(const fb::Plan &plan) {
  const std::vector<double> held = heldBytes(plan);
  auto phaseNamed = [&](std::string_view name) -> PhaseCost & {
    return findOrAdd(
        phases, [&](const PhaseCost &phase) { return phase.name == name; },
        [&] {
          PhaseCost phase;
          phase.name = name;
          return phase;
        });
  };
  for (uint32_t i = 0; i < count(plan.phases()); ++i) {
    const fb::Phase *phase = plan.phases()->Get(i);
    PhaseCost &cost = phaseNamed(text(phase->name()));
    cost.minTokens = phase->min_tokens();
    cost.maxTokens = phase->max_tokens();
    cost.withHead = phase->with_head();
    cost.step =
        typicalStep(moert::kindOf(*phase), cost.maxTokens, plan.context());
  }
  for (uint32_t i = 0; i < count(plan.explanation()); ++i) {
    const fb::Explain *entry = plan.explanation()->Get(i);
    OpCost op = readOp(*entry);
    op.heldBytes = held[i];
    PhaseCost &phase = phaseNamed(text(entry->phase()));
    phase.flops += op.flops;
    phase.weightBytes += op.weightBytes;
    phase.seconds += op.seconds;
    if (op.part == kOverlapPart) {
      phase.ops.push_back(op);
      continue; // It belongs to no device.
    }
    findOrAdd(
        phase.deviceSeconds,
        [&](const auto &entry) { return entry.first == op.device; },
        [&] { return std::pair(op.device, 0.0); })
        .second += op.seconds;
    phase.ops.push_back(op);
  }
}

const PhaseCost *ExplainSummary::phase(std::string_view name) const {
  for (const PhaseCost &phase : phases)
    if (phase.name == name)
      return &phase;
  return nullptr;
}

/// Returns the tokens per second in a phase's typical step.
static std::optional<double> rateOf(const PhaseCost *phase) {
  if (!phase || phase->step.tokens < 1 || phase->seconds <= 0)
    return std::nullopt;
  return double(phase->step.tokens) / phase->seconds;
}

const PhaseCost *ExplainSummary::prefill() const {
  const PhaseCost *longest = nullptr;
  for (const PhaseCost &phase : phases)
    if (auto kind = moert::phaseKindOf(phase.name);
        kind && isPrefill(*kind) &&
        (!longest || phase.maxTokens > longest->maxTokens))
      longest = &phase;
  return longest;
}

std::optional<double> ExplainSummary::prefillRate() const {
  return rateOf(prefill());
}

std::optional<double> ExplainSummary::batchRate() const {
  return rateOf(phase(PhaseKind::Batch));
}

std::optional<double> ExplainSummary::decodeSecondsPerToken() const {
  const PhaseCost *decode = phase(PhaseKind::Decode),
                  *logits = phase(PhaseKind::Logits);
  if (!decode || decode->step.tokens < 1 || decode->seconds <= 0)
    return std::nullopt;
  return decode->seconds / double(decode->step.tokens) +
         (logits && !decode->withHead ? logits->seconds : 0);
}

std::optional<double> ExplainSummary::decodeRate() const {
  std::optional<double> seconds = decodeSecondsPerToken();
  if (!seconds)
    return std::nullopt;
  return 1 / *seconds;
}

std::string stepText(const PhaseCost &phase) {
  if (phase.step.tokens < 1)
    return "not in the plan's program";
  // A batch has one token per sequence.
  auto kind = moert::phaseKindOf(phase.name);
  bool isBatch = kind && moert::isBatch(*kind);
  std::string step = moert::counted(uint64_t(phase.step.tokens),
                                    isBatch ? "sequence" : "token");
  if (isBatch)
    step += ", each";
  if (phase.step.cached > 0)
    step += fmt::format(" after {} in the cache", phase.step.cached);
  return step;
}

} // namespace moec
