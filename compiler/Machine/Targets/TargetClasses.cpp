#include "compiler/Machine/Targets/TargetClasses.h"

#include "runtime/base/JsonPlace.h"
#include "runtime/base/Suggest.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

using moert::parseJson;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;
using Json = nlohmann::ordered_json;

namespace moec {

namespace {
#include "ShippedClasses.inc"

StatusOr<Json> classNamed(std::string_view name) {
  for (const auto &[shipped, json] : shippedClasses)
    if (shipped == name)
      return parseJson(shipped, json, /*depth=*/2);
  std::vector<std::string> known = classNames();
  std::optional<std::string> meant = moert::closestMatch(name, known);
  return Status(
      StatusCode::Usage,
      fmt::format("no class is called \"{}\"{}; known: {}", name,
                  meant ? fmt::format(", did you mean \"{}\"?", *meant) : "",
                  fmt::join(known, ", ")));
}

std::string textOf(const Json &object, const std::string &key) {
  return object.value(key, std::string());
}

/// Appends a sentence unless it is there.
void append(std::string &text, const std::string &more) {
  if (!more.empty() && text.find(more) == text.npos)
    text += (text.empty() ? "" : "; ") + more;
}

void applyPeak(const PeakKey &key, const Json &object, DeviceDesc &device) {
  Peak &peak = device.*key.peak;
  auto efficiency = object.find(peakKey(key, "_efficiency"));
  if (efficiency == object.end() || peak.perSecond <= 0 || peak.efficiency > 0)
    return;
  peak.efficiency = efficiency->get<double>();
  peak.basis = basisFromName(textOf(object, peakKey(key, "_basis")))
                   .value_or(Basis::Unstated);
  append(peak.source, "efficiency: " + textOf(object, peakKey(key, "_why")));
}
} // namespace

std::string peakKey(const PeakKey &peak, std::string_view suffix) {
  return std::string(peak.name).append(suffix);
}

std::vector<std::string> classNames() {
  std::vector<std::string> names;
  for (const auto &[name, json] : shippedClasses)
    names.emplace_back(name);
  return names;
}

bool isLinkClass(std::string_view name) {
  StatusOr<Json> object = classNamed(name);
  return object && object->contains("link_gbps");
}

Status applyClass(std::string_view name, DeviceDesc &device) {
  MOE_ASSIGN_OR_RETURN(Json object, classNamed(name));
  bool used = false;
  if (auto rate = object.find("link_gbps");
      rate != object.end() && device.link.perSecond <= 0) {
    device.link.perSecond = rate->get<double>() * 1e9;
    device.link.source = textOf(object, "link_source");
  }
  auto seconds = [&](const char *key, double &value) {
    auto it = object.find(key);
    if (it == object.end() || value > 0)
      return;
    value = it->get<double>() * 1e-6;
    used = true;
  };
  seconds("link_latency_us", device.linkLatencySeconds);
  seconds("instruction_us", device.overheads.instruction);
  seconds("barrier_us", device.overheads.barrier);
  for (const PeakKey &key : peakKeys)
    applyPeak(key, object, device);
  if (used)
    append(device.source, textOf(object, "source"));
  return Status::ok();
}

StatusOr<std::string> ratesOfClass(std::string_view name) {
  MOE_ASSIGN_OR_RETURN(Json object, classNamed(name));
  return textOf(object, "kernels_like");
}

Status replaceLink(std::string_view name, DeviceDesc &device) {
  DeviceDesc other = device;
  other.link = {};
  other.linkLatencySeconds = 0;
  MOE_RETURN_IF_ERROR(applyClass(name, other));
  device = std::move(other);
  return Status::ok();
}

std::string classOfArch(int arch) {
  std::string best;
  int nearest = 0;
  for (const auto &[name, json] : shippedClasses) {
    StatusOr<Json> object = parseJson(name, json, /*depth=*/2);
    if (!object || !object->contains("archs"))
      continue;
    for (int known : object->at("archs"))
      if (known <= arch && known > nearest) {
        nearest = known;
        best = name;
      }
  }
  return best;
}

} // namespace moec
