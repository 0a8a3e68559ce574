//===- PlanAccess.h - Null-safe reading of flatbuffer fields ----*- C++ -*-===//

#ifndef MOE_RUNTIME_PLAN_PLANACCESS_H
#define MOE_RUNTIME_PLAN_PLANACCESS_H

#include "kernels/KvCache.h"
#include "kernels/Registry.h"
#include "kernels/quant/Format.h"
#include "runtime/base/Status.h"
#include "runtime/base/Text.h"
#include "runtime/schema/OpTable.h"
#include "runtime/schema/PhaseKind.h"
#include "runtime/schema/plan_generated.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>
#include <string>
#include <string_view>

namespace moert {

/// Returns the string, or "" if it is absent.
inline std::string_view text(const flatbuffers::String *string) {
  return string ? std::string_view(string->c_str(), string->size())
                : std::string_view();
}

/// Returns the size of the vector, or 0 if it is absent.
template <class T> uint32_t count(const flatbuffers::Vector<T> *vector) {
  return vector ? vector->size() : 0;
}

/// Returns the parameter called `name`, or -1 if the op has none. `instruction`
/// must have passed verifyPhases().
inline int64_t intOf(const fb::Instruction &instruction, const OpSpec &spec,
                     std::string_view name) {
  for (uint32_t i = 0; i < spec.ints.size(); ++i)
    if (spec.ints[i] == name)
      return instruction.ints()->Get(i);
  return -1;
}

/// Returns the bytes of a row in its layout. `weight` must have passed
/// verifyTables().
inline uint64_t rowBytesOf(const fb::Weight &weight) {
  return moek::rowBytes(moek::Layout(weight.layout()),
                        moek::Format(weight.format()), weight.cols());
}

/// Returns whether a device copies weights whenever it needs them.
inline bool isStreamed(fb::ResidencyMode mode) {
  return mode == fb::ResidencyMode::Streamed ||
         mode == fb::ResidencyMode::Pinned;
}

/// Returns a view of a weight of a verified plan whose bytes begin at `data`.
inline moek::WeightView viewOf(const fb::Weight &weight, const uint8_t *data) {
  return {data,
          weight.outer(),
          weight.rows(),
          weight.cols(),
          weight.outer_stride(),
          weight.row_stride(),
          moek::Format(weight.format())};
}

/// Returns the bytes of all rows, without gaps between them. `weight` must have
/// passed verifyTables().
inline uint64_t bytesOfRows(const fb::Weight &weight) {
  return uint64_t(weight.outer()) * uint64_t(weight.rows()) *
         rowBytesOf(weight);
}

/// Returns the number of pages that hold `positions` positions of a sequence.
constexpr int64_t kvPagesOf(int64_t positions) {
  return (positions + moek::kKvPage - 1) / moek::kKvPage;
}

/// Returns the first cache with pages, or the first state; null if there is
/// none.
inline const fb::Kv *firstKv(const fb::Plan &plan, bool rowPerSequence) {
  for (uint32_t i = 0; i < count(plan.kv()); ++i)
    if (plan.kv()->Get(i)->row_per_sequence() == rowPerSequence)
      return plan.kv()->Get(i);
  return nullptr;
}

/// Returns the rows of each layer's cache, for all sequences, in whole pages.
/// If no layer has a cache, pages only count positions: a context for each
/// sequence, at most 2^20 pages of 64 positions.
inline int64_t kvRows(const fb::Plan &plan) {
  if (const fb::Kv *first = firstKv(plan, false))
    return first->capacity();
  return std::min<int64_t>(kvPagesOf(plan.context()) * plan.sequences(),
                           1 << 20) *
         moek::kKvPage;
}

/// Returns the number of states (slots) of each layer; 0 if no layer has
/// states.
inline int64_t stateRows(const fb::Plan &plan) {
  const fb::Kv *first = firstKv(plan, true);
  return first ? first->capacity() : 0;
}

/// Describes the cache's capacity: "a context of 4096 tokens", "8 contexts of
/// 4096 tokens" or, if it is not a multiple of the context, "40960 tokens".
inline std::string kvRoom(const fb::Plan &plan) {
  int64_t rows = kvRows(plan), context = plan.context();
  int64_t each = kvPagesOf(context) * moek::kKvPage;
  if (rows == each)
    return fmt::format("a context of {}", counted(context, "token"));
  return rows > 0 && rows % each == 0
             ? fmt::format("{} contexts of {}", rows / each,
                           counted(context, "token"))
             : counted(rows, "token");
}

/// Returns the user's name of an op, such as "blk.3.ffn_experts" or
/// "output_norm"; "" if it has none.
inline std::string labelOf(const fb::Explain &op) {
  std::string part(text(op.part()));
  return op.layer() < 0 ? part : fmt::format("blk.{}.{}", op.layer(), part);
}

/// Returns the op that an instruction belongs to; null if the plan explains
/// nothing.
inline const fb::Explain *opOf(const fb::Plan &plan,
                               const fb::Instruction &instruction) {
  return instruction.explain() < count(plan.explanation())
             ? plan.explanation()->Get(instruction.explain())
             : nullptr;
}

/// Returns the types of the layers' caches: "q8_0", or "f16+q8_0" if they
/// differ.
inline std::string kvTypeNames(const fb::Plan &plan) {
  std::set<std::string_view> names;
  for (uint32_t i = 0; i < count(plan.kv()); ++i)
    if (!plan.kv()->Get(i)->row_per_sequence())
      names.insert(moek::kvTypeName(moek::KvType(plan.kv()->Get(i)->type())));
  return fmt::format("{}", fmt::join(names, "+"));
}

/// Returns the kind of a phase that passed verifyPhases().
inline PhaseKind kindOf(const fb::Phase &phase) {
  return *phaseKindOf(text(phase.name()));
}

/// Returns whether steps of a phase that passed verifyPhases() end with logits
/// instead of hidden states.
inline bool endsWithLogits(const fb::Phase &phase) {
  return phase.with_head() || has(kindOf(phase), kIsHead);
}

/// Returns the names of the outputs of the model's classifier; none without
/// one.
inline std::vector<std::string> labelsOf(const fb::Plan &plan) {
  std::vector<std::string> labels;
  for (uint32_t i = 0; i < count(plan.labels()); ++i)
    labels.emplace_back(text(plan.labels()->Get(i)));
  return labels;
}

/// Returns the number of logits after a token: of the vocabulary, or of the
/// outputs of the model's classifier.
inline int64_t logitsOf(const fb::Plan &plan) {
  return count(plan.labels()) > 0 ? int64_t(count(plan.labels()))
                                  : plan.vocab();
}

/// Returns whether decode steps compute their logits themselves.
inline bool decodeHasHead(const fb::Plan &plan) {
  return std::any_of(plan.phases()->begin(), plan.phases()->end(),
                     [](const fb::Phase *phase) { return phase->with_head(); });
}

/// Returns the device that runs `instruction`, which must have passed
/// verifyPhases().
inline uint32_t deviceOf(const fb::Plan &plan,
                         const fb::Instruction &instruction) {
  return plan.queues()->Get(instruction.queue())->device();
}

/// Returns the memory for each worker: scratch of kernels, and buffers of which
/// each worker has a copy.
inline uint64_t bytesPerWorker(const fb::Device &device) {
  return device.scratch_bytes() + device.worker_bytes();
}

/// Returns the memory of all GPUs that placement may use.
inline uint64_t gpuBudget(const fb::Plan &plan) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < count(plan.devices()); ++i)
    if (plan.devices()->Get(i)->kind() == fb::DeviceKind::Cuda)
      sum += plan.devices()->Get(i)->memory_bytes();
  return sum;
}

/// Returns the GPU memory that the plan needs. Verified sizes are below 2^48.
inline uint64_t gpuBytes(const fb::Device &device) {
  return device.weight_bytes() + device.kv_bytes() + device.arena_bytes() +
         device.workspace_bytes();
}

/// Returns the error of a check on a plan's contents.
template <class... Args>
Status invalidPlan(fmt::format_string<Args...> format, Args &&...args) {
  return Status(StatusCode::InvalidFile,
                fmt::format(format, std::forward<Args>(args)...));
}

} // namespace moert

#endif // MOE_RUNTIME_PLAN_PLANACCESS_H
