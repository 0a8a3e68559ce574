#include "compiler/Driver/RouterProfile.h"

#include "dialects/moe/ExpertFrequencies.h"
#include "dialects/moe/Moe.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "runtime/base/JsonPlace.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

using moert::JsonPlace;
using moert::parseJson;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;
using Json = nlohmann::ordered_json;

namespace moec {

namespace {

/// Enough for a thousand layers of a thousand experts.
constexpr uint64_t kMostProfileBytes = 256 << 20;
constexpr int64_t kMostLayers = 1 << 16;

/// The experts that a router selects, and the experts that it selects from.
struct Choice {
  int64_t used, experts;
};

std::map<int64_t, Choice> routersOf(mlir::ModuleOp module) {
  std::map<int64_t, Choice> routers;
  module.walk([&](mlir::moe::RouterOp op) {
    if (std::optional<int64_t> layer = mlir::moe::layerOf(op))
      routers[*layer] = {
          int64_t(op.getTopK()),
          mlir::cast<mlir::RankedTensorType>(op.getWeight().getType())
              .getDimSize(0)};
  });
  return routers;
}

StatusOr<int64_t> wholeNumber(const Json &object, const char *key,
                              const JsonPlace &place, int64_t most) {
  auto it = object.find(key);
  if (it == object.end())
    return place.error(fmt::format("has no \"{}\"", key));
  if (!it->is_number_integer() || it->get<double>() < 0 ||
      it->get<double>() > double(most))
    return (place / key)
        .error(fmt::format("\"{}\" is not a whole number from 0 to {}", key,
                           most));
  return it->get<int64_t>();
}

/// Returns the fewest experts, in order of mass, that together have all but a
/// fraction `mostDropped` of the gate mass.
StatusOr<int64_t> countOf(const Json &layer, int64_t used, double mostDropped,
                          const JsonPlace &place) {
  constexpr const char *key = "mass_by_rank";
  auto it = layer.find(key);
  if (it == layer.end())
    return place.error(fmt::format("has no \"{}\"", key));
  JsonPlace list = place / key;
  if (!it->is_array() || int64_t(it->size()) != used)
    return list.error(fmt::format("expected a list of {} numbers, one for each "
                                  "expert of a token",
                                  used));
  double total = 0;
  for (size_t index = 0; index < it->size(); ++index) {
    const Json &mass = (*it)[index];
    if (!mass.is_number() || !(mass.get<double>() >= 0) ||
        !(mass.get<double>() <= 1e6))
      return (list / index).error("expected a gate mass of at least 0");
    total += mass.get<double>();
  }
  if (!(total > 0))
    return list.error("no expert has any gate mass");
  double kept = 0;
  for (int64_t count = 1; count < used; ++count) {
    kept += (*it)[size_t(count - 1)].get<double>();
    // The tolerance covers the rounding of a sum of decimals.
    if (total - kept <= (mostDropped + 1e-9) * total)
      return count;
  }
  return used;
}

/// Returns, for each expert, the fraction of tokens that select it.
StatusOr<std::vector<float>> frequenciesOf(const Json &layer, int64_t experts,
                                           const JsonPlace &place) {
  constexpr const char *key = "frequency";
  auto it = layer.find(key);
  if (it == layer.end())
    return place.error(fmt::format("has no \"{}\"", key));
  JsonPlace list = place / key;
  if (!it->is_array() || int64_t(it->size()) != experts)
    return list.error(fmt::format(
        "expected a list of {} numbers, one for each expert", experts));
  std::vector<float> frequencies;
  for (size_t index = 0; index < it->size(); ++index) {
    const Json &number = (*it)[index];
    if (!number.is_number() || !(number.get<double>() >= 0) ||
        !(number.get<double>() <= 1))
      return (list / index).error("expected a fraction of tokens from 0 to 1");
    frequencies.push_back(number.get<float>());
  }
  if (std::ranges::all_of(frequencies, [](float part) { return part == 0; }))
    return list.error("no token chose any expert");
  return frequencies;
}

Status otherModel(const std::string &path, const std::string &why) {
  return Status(StatusCode::Usage,
                fmt::format("{}: {}; measure this model with moert "
                            "profile-router, without --experts",
                            path, why));
}

} // namespace

StatusOr<RouterProfile> readRouterProfile(moert::InputTexts &texts,
                                          const std::string &path,
                                          double mostDropped,
                                          mlir::ModuleOp module) {
  MOE_ASSIGN_OR_RETURN(
      const std::string *text,
      texts.read("the router profile", path, kMostProfileBytes));
  MOE_ASSIGN_OR_RETURN(Json json, parseJson(path, *text, /*depth=*/8));
  JsonPlace root(path, *text);
  if (!json.is_object() || json.value("kind", Json()) != "moert router profile")
    return root.error("is not a profile written by moert profile-router");
  auto layers = json.find("layers");
  if (layers == json.end() || !layers->is_array())
    return root.error("has no list \"layers\"");

  std::map<int64_t, Choice> routers = routersOf(module);
  if (routers.empty())
    return otherModel(path, "the model has no experts to leave out");
  RouterProfile profile;
  std::vector<int64_t> &counts = profile.counts;
  counts.resize(size_t(routers.rbegin()->first) + 1);
  for (size_t index = 0; index < layers->size(); ++index) {
    const Json &layer = (*layers)[index];
    JsonPlace place = root / "layers" / index;
    if (!layer.is_object())
      return place.error("expected a layer");
    MOE_ASSIGN_OR_RETURN(int64_t number,
                         wholeNumber(layer, "layer", place, kMostLayers));
    MOE_ASSIGN_OR_RETURN(int64_t experts,
                         wholeNumber(layer, "experts", place, INT32_MAX));
    MOE_ASSIGN_OR_RETURN(int64_t used,
                         wholeNumber(layer, "experts_used", place, INT32_MAX));
    auto router = routers.find(number);
    if (router == routers.end())
      return otherModel(
          path, fmt::format("has experts in layer {}, where the model has none",
                            number));
    const Choice &own = router->second;
    if (experts != own.experts || used != own.used)
      return otherModel(
          path, fmt::format("uses {} of {} experts in layer {}, but "
                            "the model {} of {}",
                            used, experts, number, own.used, own.experts));
    if (counts[size_t(number)] != 0)
      return place.error(fmt::format("layer {} is there twice", number));
    MOE_ASSIGN_OR_RETURN(counts[size_t(number)],
                         countOf(layer, used, mostDropped, place));
    MOE_ASSIGN_OR_RETURN(profile.frequencies[number],
                         frequenciesOf(layer, experts, place));
  }
  for (const auto &[number, router] : routers)
    if (counts[size_t(number)] == 0)
      return otherModel(path,
                        fmt::format("has nothing about layer {}", number));
  return profile;
}

void setFrequencies(const RouterProfile &profile, mlir::ModuleOp module) {
  module.walk([&](mlir::moe::ExpertsOp op) {
    std::optional<int64_t> layer = mlir::moe::layerOf(op);
    auto known =
        layer ? profile.frequencies.find(*layer) : profile.frequencies.end();
    if (known != profile.frequencies.end())
      op->setAttr(mlir::moe::kFrequenciesAttr,
                  mlir::DenseF32ArrayAttr::get(op.getContext(), known->second));
  });
}

} // namespace moec
