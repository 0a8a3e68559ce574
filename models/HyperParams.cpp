#include "models/HyperParams.h"

#include "runtime/base/Text.h"

#include <cmath>
#include <fmt/format.h>

using moert::quoted;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

std::string HyperParams::key(std::string_view name) const {
  return fmt::format("{}.{}", model_.architecture(), name);
}

bool HyperParams::has(std::string_view name) const {
  return model_.find(key(name)) != nullptr;
}

Status HyperParams::error(StatusCode code, std::string_view name,
                          std::string_view message) const {
  std::string full = key(name);
  const GgufValue *value = model_.find(full);
  std::string place =
      value ? fmt::format("byte {}: ", value->fileOffset) : std::string();
  return Status(code, fmt::format("{}: {}key {} {}", model_.paths().front(),
                                  place, quoted(full), message));
}

StatusOr<int64_t> HyperParams::integer(std::string_view name, int64_t low,
                                       int64_t high,
                                       std::optional<int64_t> fallback) const {
  MOE_ASSIGN_OR_RETURN(std::optional<uint64_t> value,
                       model_.getUint(key(name)));
  if (!value && fallback)
    return *fallback;
  if (!value)
    return error(StatusCode::InvalidFile, name, "is missing");
  if (*value < uint64_t(low) || *value > uint64_t(high))
    return error(StatusCode::InvalidFile, name,
                 fmt::format("is {}, expected {} to {}", *value, low, high));
  return int64_t(*value);
}

StatusOr<double> HyperParams::positive(std::string_view name,
                                       std::optional<double> fallback,
                                       bool zeroToo) const {
  MOE_ASSIGN_OR_RETURN(std::optional<double> value, model_.getFloat(key(name)));
  if (!value && fallback)
    return *fallback;
  if (!value)
    return error(StatusCode::InvalidFile, name, "is missing");
  if (!std::isfinite(*value) || *value < 0 || (*value == 0 && !zeroToo))
    return error(StatusCode::InvalidFile, name,
                 fmt::format("is {}, expected a finite number {}", *value,
                             zeroToo ? "not below 0" : "above 0"));
  return *value;
}

StatusOr<bool> HyperParams::flag(std::string_view name, bool fallback) const {
  MOE_ASSIGN_OR_RETURN(std::optional<bool> value, model_.getBool(key(name)));
  return value.value_or(fallback);
}

StatusOr<std::string> HyperParams::text(std::string_view name,
                                        std::string_view fallback) const {
  MOE_ASSIGN_OR_RETURN(std::optional<std::string_view> value,
                       model_.getString(key(name)));
  return std::string(value.value_or(fallback));
}

} // namespace moec
