//===- PlanAccess.h - Null-safe reading of flatbuffer fields ----*- C++ -*-===//

#ifndef MOE_RUNTIME_PLANACCESS_H
#define MOE_RUNTIME_PLANACCESS_H

#include "runtime/base/Status.h"
#include "runtime/base/Text.h"
#include "runtime/schema/OpTable.h"
#include "runtime/schema/plan_generated.h"

#include <fmt/format.h>
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

/// The failure of a check on a plan's contents.
template <class... Args>
Status invalidPlan(fmt::format_string<Args...> format, Args &&...args) {
  return Status(StatusCode::InvalidFile,
                fmt::format(format, std::forward<Args>(args)...));
}

} // namespace moert

#endif // MOE_RUNTIME_PLANACCESS_H
