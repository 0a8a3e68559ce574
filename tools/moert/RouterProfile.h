//===- RouterProfile.h - Which experts a text uses --------------*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_ROUTERPROFILE_H
#define MOE_TOOLS_MOERT_ROUTERPROFILE_H

#include "runtime/engine/RouterWatch.h"

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

namespace moert {

/// What one layer's router did with a text.
struct LayerProfile {
  LayerProfile(int64_t experts, int64_t topK);

  /// A token's choice: `ids` and `weights` [topK].
  void add(std::span<const int32_t> ids, std::span<const float> weights);

  int64_t topK;
  uint64_t tokens = 0;
  std::vector<uint64_t> counts; ///< By expert: tokens that chose it.
  /// Sums over tokens of a chosen expert's part in the weights of all that the
  /// token chose: by expert, and by rank, the heaviest first.
  std::vector<double> gateMass, massByRank;
  /// reuse[d]: choices of an expert since whose last use d others were used; a
  /// least-recently-used cache of n experts has those with d < n.
  std::vector<uint64_t> reuse;
  uint64_t firstUses = 0; ///< Choices of an expert that was not used before.

  /// Part of the choices that the `most` most frequent experts have.
  double shareOfHottest(size_t most) const;
  /// Part of the choices that an LRU cache of `size` experts would have.
  double cacheHits(size_t size) const;

private:
  std::vector<int32_t> recent_; ///< Experts used, the last one first.
};

class RouterProfile {
public:
  void add(const RouterChoice &choice);

  const std::map<int32_t, LayerProfile> &layers() const { return layers_; }
  /// "layers" of the profile.
  nlohmann::ordered_json json() const;

private:
  std::map<int32_t, LayerProfile> layers_;
};

} // namespace moert

#endif // MOE_TOOLS_MOERT_ROUTERPROFILE_H
