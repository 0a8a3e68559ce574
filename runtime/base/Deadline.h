//===- Deadline.h - Until when work may go on -------------------*- C++ -*-===//
//
// Long work asks now and then whether it may go on, and ends with an error if
// not; no thread is stopped from outside.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_BASE_DEADLINE_H
#define MOE_RUNTIME_BASE_DEADLINE_H

#include "runtime/base/Status.h"

#include <chrono>
#include <string_view>

namespace moert {

class Deadline {
public:
  /// A deadline that never passes.
  Deadline() = default;
  /// Passes after `time` from now; never if that is 0.
  explicit Deadline(std::chrono::milliseconds time);

  bool hasPassed() const { return time_.count() > 0 && Clock::now() >= end_; }
  /// Fails with Usage once it has passed: "WORK takes longer than the 30 s that
  /// a request may take".
  Status check(std::string_view work) const;
  std::chrono::milliseconds time() const { return time_; }

private:
  using Clock = std::chrono::steady_clock;
  std::chrono::milliseconds time_{0};
  Clock::time_point end_{};
};

} // namespace moert

#endif // MOE_RUNTIME_BASE_DEADLINE_H
