#include "models/HyperParams.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

using moert::quoted;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

std::string HyperParams::key(std::string_view name) const {
  if (asked_)
    asked_->keys.emplace(name);
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
  auto read = [&]() -> StatusOr<int64_t> {
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
  };
  return settled(read(), fallback.value_or(low));
}

StatusOr<int64_t> HyperParams::element(std::string_view name, GgufType type,
                                       int64_t index) const {
  auto read = [&]() -> StatusOr<int64_t> {
    MOE_ASSIGN_OR_RETURN(const GgufArray *array,
                         model_.getArray(key(name), type));
    if (!array)
      return error(StatusCode::InvalidFile, name, "is missing");
    if (index >= int64_t(array->integers.size()))
      return error(StatusCode::InvalidFile, name,
                   fmt::format("has {} elements, expected one for each layer",
                               array->integers.size()));
    return array->integers[size_t(index)];
  };
  return settled(read(), int64_t(0));
}

StatusOr<int64_t> HyperParams::ofLayer(std::string_view name, int64_t layer,
                                       int64_t low, int64_t high,
                                       std::optional<int64_t> fallback) const {
  auto read = [&]() -> StatusOr<int64_t> {
    const GgufValue *found = model_.find(key(name));
    if (!found || !std::holds_alternative<GgufArray>(found->data))
      return integer(name, low, high, fallback);
    MOE_ASSIGN_OR_RETURN(int64_t value, element(name, GgufType::U32, layer));
    if (value < low || value > high)
      return error(StatusCode::InvalidFile, name,
                   fmt::format("is {} for layer {}, expected {} to {}", value,
                               layer, low, high));
    return value;
  };
  return settled(read(), fallback.value_or(low));
}

StatusOr<std::vector<int64_t>> HyperParams::allIntegers(std::string_view name,
                                                        int64_t low,
                                                        int64_t high) const {
  auto read = [&]() -> StatusOr<std::vector<int64_t>> {
    MOE_ASSIGN_OR_RETURN(const GgufArray *array,
                         model_.getArray(key(name), GgufType::U32));
    if (!array)
      return error(StatusCode::InvalidFile, name, "is missing");
    for (size_t i = 0; i < array->integers.size(); ++i)
      if (int64_t value = array->integers[i]; value < low || value > high)
        return error(StatusCode::InvalidFile, name,
                     fmt::format("has {} as element {}, expected {} to {}",
                                 value, i, low, high));
    return array->integers;
  };
  return settled(read(), std::vector<int64_t>());
}

StatusOr<std::vector<int64_t>>
HyperParams::integers(std::string_view name, int64_t count, int64_t low) const {
  std::vector<int64_t> any(size_t(count), low);
  auto read = [&]() -> StatusOr<std::vector<int64_t>> {
    MOE_ASSIGN_OR_RETURN(std::vector<int64_t> values,
                         allIntegers(name, low, INT64_MAX));
    if (int64_t(values.size()) != count)
      return error(
          StatusCode::InvalidFile, name,
          fmt::format("has {} elements, expected {}", values.size(), count));
    return values;
  };
  return settled(read(), std::move(any));
}

StatusOr<bool> HyperParams::flagOfLayer(std::string_view name,
                                        int64_t layer) const {
  MOE_ASSIGN_OR_RETURN(int64_t value, element(name, GgufType::Bool, layer));
  return value != 0;
}

StatusOr<bool> HyperParams::inPeriod(std::string_view name, int64_t layer,
                                     int64_t period, bool first) const {
  const GgufValue *found = model_.find(key(name));
  if (found && std::holds_alternative<GgufArray>(found->data))
    return flagOfLayer(name, layer);
  MOE_ASSIGN_OR_RETURN(period, integer(name, 1, INT32_MAX, period));
  return layer % period != (first ? 0 : period - 1);
}

StatusOr<double> HyperParams::real(std::string_view name,
                                   std::optional<double> fallback) const {
  MOE_ASSIGN_OR_RETURN(std::optional<double> value, model_.getFloat(key(name)));
  if (!value && !fallback)
    return error(StatusCode::InvalidFile, name, "is missing");
  return value ? *value : *fallback;
}

StatusOr<double> HyperParams::positive(std::string_view name,
                                       std::optional<double> fallback,
                                       bool zeroToo) const {
  auto read = [&]() -> StatusOr<double> {
    MOE_ASSIGN_OR_RETURN(double value, real(name, fallback));
    const auto single = static_cast<float>(value);
    if (!std::isfinite(single) || single < 0 || (single == 0 && !zeroToo))
      return error(
          StatusCode::InvalidFile, name,
          fmt::format("is {}, expected a finite number {} (in 32 bits)", value,
                      zeroToo ? "not below 0" : "above 0"));
    return value;
  };
  return settled(read(), fallback.value_or(1));
}

StatusOr<double> HyperParams::within(std::string_view name, double low,
                                     double high,
                                     std::optional<double> fallback) const {
  auto read = [&]() -> StatusOr<double> {
    MOE_ASSIGN_OR_RETURN(double value, real(name, fallback));
    if (!(value >= low && value <= high))
      return error(StatusCode::InvalidFile, name,
                   fmt::format("is {}, expected {} to {}", value, low, high));
    return value;
  };
  return settled(read(), fallback.value_or(std::clamp(1.0, low, high)));
}

StatusOr<double> HyperParams::positiveOfLayer(std::string_view name,
                                              int64_t layer,
                                              bool zeroToo) const {
  auto read = [&]() -> StatusOr<double> {
    const GgufValue *found = model_.find(key(name));
    if (!found || !std::holds_alternative<GgufArray>(found->data))
      return positive(name, {}, zeroToo);
    MOE_ASSIGN_OR_RETURN(const GgufArray *array,
                         model_.getArray(key(name), GgufType::F32));
    if (layer >= int64_t(array->floats.size()))
      return error(StatusCode::InvalidFile, name,
                   fmt::format("has {} elements, expected one for each layer",
                               array->floats.size()));
    double value = array->floats[size_t(layer)];
    if (!std::isfinite(value) || value < 0 || (value == 0 && !zeroToo))
      return error(
          StatusCode::InvalidFile, name,
          fmt::format("is {} for layer {}, expected a finite number {}", value,
                      layer, zeroToo ? "not below 0" : "above 0"));
    return value;
  };
  return settled(read(), 1.0);
}

StatusOr<bool> HyperParams::flag(std::string_view name, bool fallback) const {
  auto read = [&]() -> StatusOr<bool> {
    MOE_ASSIGN_OR_RETURN(std::optional<bool> value, model_.getBool(key(name)));
    return value.value_or(fallback);
  };
  return settled(read(), fallback);
}

StatusOr<std::vector<std::string>>
HyperParams::texts(std::string_view name) const {
  auto array = settled<const GgufArray *>(
      model_.getArray(key(name), GgufType::String), nullptr);
  if (!array)
    return array.status();
  if (!*array)
    return std::vector<std::string>();
  return std::vector<std::string>((*array)->strings.begin(),
                                  (*array)->strings.end());
}

StatusOr<std::string> HyperParams::text(std::string_view name,
                                        std::string_view fallback) const {
  auto read = [&]() -> StatusOr<std::string> {
    MOE_ASSIGN_OR_RETURN(std::optional<std::string_view> value,
                         model_.getString(key(name)));
    return std::string(value.value_or(fallback));
  };
  return settled(read(), std::string(fallback));
}

} // namespace moec
