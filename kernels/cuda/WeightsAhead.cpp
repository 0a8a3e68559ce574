#include "kernels/cuda/WeightsAhead.h"

#include "kernels/cuda/Abi.h"

#include <algorithm>

namespace moek::cuda {

namespace {
/// How long a single block works after all others of a launch, about: norms,
/// routers and quantisation take 2 to 6 us on a 4090, by its simulated clock.
constexpr double kTailSeconds = 4e-6;
/// The part of L2 for weights that wait for their launch.
constexpr uint64_t kL2Part = 2;
/// Smaller weights, biases say, are not worth one of kMaxPrefetches ranges.
constexpr uint64_t kLeastBytes = uint64_t(64) << 10;

/// A place in the weights of all launches, in the order in which they are read:
/// the first byte that no launch has brought yet.
class Cursor {
public:
  explicit Cursor(std::span<const WeightReader> launches)
      : launches_(launches) {}

  /// Skips what is left of the weights of launches before number `first`: these
  /// have begun.
  void advance(size_t first) {
    if (launch_ < first)
      launch_ = first, weight_ = 0, offset_ = 0;
  }

  /// The launch with the next bytes.
  size_t launch() const { return launch_; }
  /// Moves on to the next weight that is worth a range; false if there is none.
  bool find() {
    for (; launch_ < launches_.size(); ++launch_, weight_ = 0, offset_ = 0)
      for (; weight_ < launches_[launch_].weights.size();
           ++weight_, offset_ = 0)
        if (uint64_t bytes = launches_[launch_].weights[weight_];
            bytes >= kLeastBytes && offset_ < bytes)
          return true;
    return false;
  }
  /// Takes at most `bytes` of the weight that find() found.
  AheadRange take(uint64_t bytes) {
    AheadRange taken{
        launch_, weight_, offset_,
        std::min(bytes, launches_[launch_].weights[weight_] - offset_)};
    offset_ += taken.bytes;
    return taken;
  }

private:
  std::span<const WeightReader> launches_;
  size_t launch_ = 0, weight_ = 0;
  uint64_t offset_ = 0;
};

uint64_t bytesOf(const WeightReader &launch) {
  uint64_t bytes = launch.otherBytes;
  for (uint64_t weight : launch.weights)
    bytes += weight;
  return bytes;
}
} // namespace

WeightUse weightUseOf(OpCode op) {
  switch (op) {
  case OpCode::Linear:
  case OpCode::GateUp:
  case OpCode::HeadLinear:
  case OpCode::AbsorbQuery:
    return WeightUse::Whole;
  case OpCode::ExpertsLinear:
  case OpCode::ExpertsGateUp:
    return WeightUse::Experts;
  default:
    return WeightUse::None;
  }
}

std::vector<bool> lastBeforeWaits(std::span<const WeightReader> launches) {
  std::vector<bool> isLast(launches.size());
  for (size_t waiting = 0; waiting < launches.size(); ++waiting) {
    if (!launches[waiting].isAfterWait)
      continue;
    size_t i = waiting;
    while (i > 0 && !launches[i - 1].canPrefetch)
      --i;
    if (i > 0)
      isLast[i - 1] = true;
  }
  return isLast;
}

std::vector<std::vector<AheadRange>>
weightsAhead(std::span<const WeightReader> launches, uint64_t l2Bytes,
             double bytesPerSecond) {
  const uint64_t kept = l2Bytes / kL2Part;
  const auto tail = uint64_t(kTailSeconds * bytesPerSecond);
  // before[i]: bytes of weights that launches before number i read.
  std::vector<uint64_t> before = {0};
  for (const WeightReader &launch : launches)
    before.push_back(before.back() + bytesOf(launch));
  const std::vector<bool> isBeforeWait = lastBeforeWaits(launches);
  Cursor cursor(launches);
  std::vector<std::vector<AheadRange>> all(launches.size());
  // Bytes that were brought for each launch, and those that still wait.
  std::vector<uint64_t> brought(launches.size());
  uint64_t waiting = 0;
  for (size_t i = 0; i < launches.size(); ++i) {
    waiting -= brought[i];
    cursor.advance(i + 1);
    if (!launches[i].canPrefetch)
      continue;
    std::vector<AheadRange> &ranges = all[i];
    uint64_t room = kept - waiting;
    if (!isBeforeWait[i])
      room = std::min(room, tail);
    while (room > 0 && ranges.size() < kMaxPrefetches && cursor.find() &&
           before[cursor.launch()] - before[i + 1] <= kept) {
      ranges.push_back(cursor.take(room));
      room -= ranges.back().bytes;
      waiting += ranges.back().bytes;
      brought[cursor.launch()] += ranges.back().bytes;
    }
  }
  return all;
}

} // namespace moek::cuda
