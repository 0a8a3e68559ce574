#include "tools/moert/RouterProfile.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace moert {

LayerProfile::LayerProfile(int64_t experts, int64_t topK)
    : topK(topK), counts(size_t(experts)), gateMass(size_t(experts)),
      massByRank(size_t(topK)), reuse(size_t(experts)) {}

void LayerProfile::add(std::span<const int32_t> ids,
                       std::span<const float> weights) {
  ++tokens;
  double sum = 0;
  for (float weight : weights)
    sum += double(weight);
  std::vector<double> parts;
  for (size_t i = 0; i < ids.size(); ++i) {
    parts.push_back(sum > 0 ? double(weights[i]) / sum : 0);
    ++counts[size_t(ids[i])];
    gateMass[size_t(ids[i])] += parts.back();
  }
  std::ranges::sort(parts, std::greater<>());
  for (size_t rank = 0; rank < parts.size(); ++rank)
    massByRank[rank] += parts[rank];

  // A token uses its experts together, so distances refer to the state before
  // it.
  for (int32_t id : ids) {
    auto at = std::ranges::find(recent_, id);
    if (at == recent_.end())
      ++firstUses;
    else
      ++reuse[size_t(at - recent_.begin())];
  }
  std::erase_if(recent_, [&](int32_t id) {
    return std::ranges::find(ids, id) != ids.end();
  });
  recent_.insert(recent_.begin(), ids.begin(), ids.end());
}

double LayerProfile::shareOfHottest(size_t most) const {
  std::vector<uint64_t> sorted = counts;
  std::ranges::sort(sorted, std::greater<>());
  auto end = sorted.begin() + std::ptrdiff_t(std::min(most, sorted.size()));
  uint64_t all = tokens * uint64_t(topK);
  return all == 0 ? 0
                  : double(std::accumulate(sorted.begin(), end, uint64_t(0))) /
                        double(all);
}

double LayerProfile::cacheHits(size_t size) const {
  auto end = reuse.begin() + std::ptrdiff_t(std::min(size, reuse.size()));
  uint64_t all = tokens * uint64_t(topK);
  return all == 0 ? 0
                  : double(std::accumulate(reuse.begin(), end, uint64_t(0))) /
                        double(all);
}

void RouterProfile::add(const RouterChoice &choice) {
  LayerProfile &layer =
      layers_.try_emplace(choice.layer, choice.experts, choice.topK)
          .first->second;
  auto topK = size_t(choice.topK);
  for (size_t row = 0; (row + 1) * topK <= choice.ids.size(); ++row)
    layer.add(choice.ids.subspan(row * topK, topK),
              choice.weights.subspan(row * topK, topK));
}

nlohmann::ordered_json RouterProfile::json() const {
  auto perToken = [](const auto &sums, uint64_t tokens) {
    nlohmann::ordered_json means = nlohmann::ordered_json::array();
    for (auto sum : sums)
      means.push_back(tokens == 0 ? 0 : double(sum) / double(tokens));
    return means;
  };
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const auto &[number, layer] : layers_)
    json.push_back(
        {{"layer", number},
         {"experts", layer.counts.size()},
         {"experts_used", layer.topK},
         {"tokens", layer.tokens},
         {"counts", layer.counts},
         {"frequency", perToken(layer.counts, layer.tokens)},
         {"gate_mass", perToken(layer.gateMass, layer.tokens)},
         {"mass_by_rank", perToken(layer.massByRank, layer.tokens)},
         {"reuse_distance",
          {{"first_uses", layer.firstUses}, {"histogram", layer.reuse}}}});
  return json;
}

} // namespace moert
