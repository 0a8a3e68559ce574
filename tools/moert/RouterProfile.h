//===- RouterProfile.h - Statistics of the use of experts -------*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_ROUTERPROFILE_H
#define MOE_TOOLS_MOERT_ROUTERPROFILE_H

#include "runtime/engine/RouterWatch.h"

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

namespace moert {

/// Statistics of a layer's router over a text.
struct LayerProfile {
  LayerProfile(int64_t experts, int64_t topK);

  /// Adds a token's choice: `ids` and `weights`, both [topK].
  void add(std::span<const int32_t> ids, std::span<const float> weights);

  int64_t topK;
  uint64_t tokens = 0;
  /// For each expert, the number of tokens that chose it.
  std::vector<uint64_t> counts;
  /// For each token, the gate weight of a chosen expert as a fraction of the
  /// sum over its chosen experts. Sums over tokens, by expert and by rank
  /// (heaviest first).
  std::vector<double> gateMass, massByRank;
  /// reuse[d]: number of choices of an expert since whose last use d other
  /// experts were used. A least-recently-used cache of n experts hits those
  /// with d < n.
  std::vector<uint64_t> reuse;
  /// Number of choices of an expert that was not used before.
  uint64_t firstUses = 0;

  /// Returns the fraction of choices that go to the `most` most frequent
  /// experts.
  double shareOfHottest(size_t most) const;
  /// Returns the hit rate of an LRU cache of `size` experts.
  double cacheHits(size_t size) const;

private:
  /// Experts in the order of their last use, the latest first.
  std::vector<int32_t> recent_;
};

class RouterProfile {
public:
  void add(const RouterChoice &choice);

  const std::map<int32_t, LayerProfile> &layers() const { return layers_; }
  /// Returns the "layers" of the profile.
  nlohmann::ordered_json json() const;

private:
  std::map<int32_t, LayerProfile> layers_;
};

} // namespace moert

#endif // MOE_TOOLS_MOERT_ROUTERPROFILE_H
