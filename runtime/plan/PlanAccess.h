//===- PlanAccess.h - Null-safe reading of flatbuffer fields ----*- C++ -*-===//

#ifndef MOE_RUNTIME_PLAN_PLANACCESS_H
#define MOE_RUNTIME_PLAN_PLANACCESS_H

#include "kernels/KvCache.h"
#include "kernels/Registry.h"
#include "kernels/quant/Format.h"
#include "runtime/base/Status.h"
#include "runtime/base/Text.h"
#include "runtime/schema/OpTable.h"
#include "runtime/schema/plan_generated.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>
#include <string>
#include <string_view>

namespace moert {

/// An absent string is an empty one.
inline std::string_view text(const flatbuffers::String *string) {
  return string ? std::string_view(string->c_str(), string->size())
                : std::string_view();
}

/// An absent vector is an empty one.
template <class T> uint32_t count(const flatbuffers::Vector<T> *vector) {
  return vector ? vector->size() : 0;
}

/// The parameter called `name`; -1 if the op has none. `instruction` passed
/// verifyPhases().
inline int64_t intOf(const fb::Instruction &instruction, const OpSpec &spec,
                     std::string_view name) {
  for (uint32_t i = 0; i < spec.ints.size(); ++i)
    if (spec.ints[i] == name)
      return instruction.ints()->Get(i);
  return -1;
}

/// Of a row, in its layout's bytes. `weight` passed verifyTables().
inline uint64_t rowBytesOf(const fb::Weight &weight) {
  return moek::rowBytes(moek::Layout(weight.layout()),
                        moek::Format(weight.format()), weight.cols());
}

/// Of the rows alone, without gaps between them, likewise.
inline uint64_t bytesOfRows(const fb::Weight &weight) {
  return uint64_t(weight.outer()) * uint64_t(weight.rows()) *
         rowBytesOf(weight);
}

/// Pages that hold `positions` positions of a sequence.
constexpr int64_t kvPagesOf(int64_t positions) {
  return (positions + moek::kKvPage - 1) / moek::kKvPage;
}

/// The first cache with pages, or the first state; null where there is none.
inline const fb::Kv *firstKv(const fb::Plan &plan, bool perSequence) {
  for (uint32_t i = 0; i < count(plan.kv()); ++i)
    if (plan.kv()->Get(i)->per_sequence() == perSequence)
      return plan.kv()->Get(i);
  return nullptr;
}

/// Rows of each layer's cache: of all sequences, in whole pages. Where no layer
/// has one, pages number positions alone: those of a context of each sequence,
/// up to 64 of a million tokens.
inline int64_t kvRows(const fb::Plan &plan) {
  if (const fb::Kv *first = firstKv(plan, false))
    return first->capacity();
  return std::min<int64_t>(kvPagesOf(plan.context()) * plan.sequences(),
                           1 << 20) *
         moek::kKvPage;
}

/// Rows of each layer's state; 0 where no layer has one.
inline int64_t stateRows(const fb::Plan &plan) {
  const fb::Kv *first = firstKv(plan, true);
  return first ? first->capacity() : 0;
}

/// What those hold: "a context of 4096 tokens", "8 contexts of 4096 tokens",
/// or, if they are no multiple of a context's, "40960 tokens".
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

/// What users call an op: "blk.3.ffn_experts", "output_norm"; "" for one
/// without a name.
inline std::string labelOf(const fb::Explain &op) {
  std::string part(text(op.part()));
  return op.layer() < 0 ? part : fmt::format("blk.{}.{}", op.layer(), part);
}

/// The op that an instruction belongs to; null in a plan that explains nothing.
inline const fb::Explain *opOf(const fb::Plan &plan,
                               const fb::Instruction &instruction) {
  return instruction.explain() < count(plan.explanation())
             ? plan.explanation()->Get(instruction.explain())
             : nullptr;
}

/// Types of the layers' caches, "q8_0", or "f16+q8_0" where they differ.
inline std::string kvTypeNames(const fb::Plan &plan) {
  std::set<std::string_view> names;
  for (uint32_t i = 0; i < count(plan.kv()); ++i)
    if (!plan.kv()->Get(i)->per_sequence())
      names.insert(moek::kvTypeName(moek::KvType(plan.kv()->Get(i)->type())));
  return fmt::format("{}", fmt::join(names, "+"));
}

/// Number of the device that runs `instruction`, which passed verifyPhases().
inline uint32_t deviceOf(const fb::Plan &plan,
                         const fb::Instruction &instruction) {
  return plan.queues()->Get(instruction.queue())->device();
}

/// What a device needs for each worker: kernels' scratch, and the buffers of
/// which every worker has a copy.
inline uint64_t bytesPerWorker(const fb::Device &device) {
  return device.scratch_bytes() + device.worker_bytes();
}

/// Of all GPUs, to plan with.
inline uint64_t gpuBudget(const fb::Plan &plan) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < count(plan.devices()); ++i)
    if (plan.devices()->Get(i)->kind() == fb::DeviceKind::Cuda)
      sum += plan.devices()->Get(i)->memory_bytes();
  return sum;
}

/// What a GPU's memory has to hold of the plan. Verified sizes are below 2^48.
inline uint64_t gpuBytes(const fb::Device &device) {
  return device.weight_bytes() + device.kv_bytes() + device.arena_bytes() +
         device.workspace_bytes();
}

/// The failure of a check on a plan's contents.
template <class... Args>
Status invalidPlan(fmt::format_string<Args...> format, Args &&...args) {
  return Status(StatusCode::InvalidFile,
                fmt::format(format, std::forward<Args>(args)...));
}

} // namespace moert

#endif // MOE_RUNTIME_PLAN_PLANACCESS_H
