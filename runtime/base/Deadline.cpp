#include "runtime/base/Deadline.h"

#include <fmt/format.h>

namespace moert {

Deadline::Deadline(std::chrono::milliseconds time)
    : time_(time), end_(Clock::now() + time) {}

Status Deadline::check(std::string_view work) const {
  if (!hasPassed())
    return Status::ok();
  return Status(StatusCode::Usage,
                fmt::format("{} takes longer than the {} s that the server "
                            "works on a request before it is evaluated: send "
                            "less",
                            work, double(time_.count()) / 1000));
}

} // namespace moert
