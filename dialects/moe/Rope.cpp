//===- Rope.cpp - Frequencies of rotary position embeddings ---------------===//

#include "dialects/moe/Rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

using namespace mlir;
using namespace mlir::moe;

namespace {
/// How much of pair `i` keeps its frequency; the rest is interpolated. YaRN,
/// arXiv 2309.00071, section 3.2, with its ramp over dimensions.
class YarnRamp {
public:
  explicit YarnRamp(RopeAttr rope)
      : low(pairAt(rope, rope.getBetaFast())),
        high(pairAt(rope, rope.getBetaSlow())) {
    if (rope.getRounded()) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, double(rope.getDim() - 1));
  }

  double kept(int64_t i) const {
    double width = std::max(high - low, 0.001);
    return 1 - std::clamp((double(i) - low) / width, 0.0, 1.0);
  }

private:
  /// The pair that turns `rotations` times over the original context.
  static double pairAt(RopeAttr rope, double rotations) {
    double period = double(rope.getOriginalContext()) / rotations;
    return double(rope.getDim()) * std::log(period / (2 * std::numbers::pi)) /
           (2 * std::log(rope.getBase()));
  }

  double low, high;
};
} // namespace

SmallVector<float> moe::ropeInvFreq(RopeAttr rope) {
  int64_t dim = rope.getDim();
  double factor = rope.getFactor();
  SmallVector<float> frequencies(dim / 2);
  for (int64_t i = 0; i < dim / 2; ++i) {
    double frequency = std::pow(rope.getBase(), -2 * double(i) / double(dim));
    if (rope.getReversed())
      frequency = -frequency;
    if (!rope.getDivisors().empty())
      frequency /= rope.getDivisors()[i];
    double kept = rope.getOriginalContext() > 0 ? YarnRamp(rope).kept(i) : 0.0;
    frequencies[i] = float(frequency / factor * (1 - kept) + frequency * kept);
  }
  return frequencies;
}
