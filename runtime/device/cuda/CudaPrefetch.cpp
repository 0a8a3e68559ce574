#include "runtime/device/cuda/CudaPrefetch.h"

#include "kernels/cuda/Fuse.h"

#include <algorithm>

namespace moert {

namespace {
using moek::cuda::Prefetch;

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
  explicit Cursor(const std::vector<CudaLaunch> &launches)
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
        if (uint64_t bytes = launches_[launch_].weights[weight_].bytes;
            bytes >= kLeastBytes && offset_ < bytes)
          return true;
    return false;
  }
  /// Takes at most `bytes` of the weight that find() found.
  Prefetch take(uint64_t bytes) {
    const Prefetch &weight = launches_[launch_].weights[weight_];
    Prefetch taken{weight.begin + offset_,
                   std::min<uint64_t>(bytes, weight.bytes - offset_)};
    offset_ += taken.bytes;
    return taken;
  }

private:
  const std::vector<CudaLaunch> &launches_;
  size_t launch_ = 0, weight_ = 0;
  uint64_t offset_ = 0;
};

uint64_t bytesOf(const CudaLaunch &launch) {
  uint64_t bytes = launch.otherBytes;
  for (const Prefetch &weight : launch.weights)
    bytes += weight.bytes;
  return bytes;
}
} // namespace

std::vector<bool> lastBeforeWaits(const CudaPart &part) {
  std::vector<bool> isLast(part.launches.size());
  for (const CudaSegment &segment : part.segments) {
    if (segment.waits.empty())
      continue;
    size_t i = segment.first;
    while (i > 0 && !part.launches[i - 1].canPrefetch)
      --i;
    if (i > 0)
      isLast[i - 1] = true;
  }
  return isLast;
}

void prefetchWeights(CudaPart &part, const CudaGpu &gpu) {
  const uint64_t kept = gpu.l2Bytes / kL2Part;
  const auto tail = uint64_t(kTailSeconds * gpu.peakBytesPerSecond());
  // before[i]: bytes of weights that launches before number i read.
  std::vector<uint64_t> before = {0};
  for (const CudaLaunch &launch : part.launches)
    before.push_back(before.back() + bytesOf(launch));
  const std::vector<bool> isBeforeWait = lastBeforeWaits(part);
  Cursor cursor(part.launches);
  // Bytes that were brought for each launch, and those that still wait.
  std::vector<uint64_t> brought(part.launches.size());
  uint64_t waiting = 0;
  for (size_t i = 0; i < part.launches.size(); ++i) {
    waiting -= brought[i];
    cursor.advance(i + 1);
    if (!part.launches[i].canPrefetch)
      continue;
    std::vector<Prefetch> ranges;
    uint64_t room = kept - waiting;
    if (!isBeforeWait[i])
      room = std::min(room, tail);
    while (room > 0 && ranges.size() < moek::cuda::kMaxPrefetches &&
           cursor.find() && before[cursor.launch()] - before[i + 1] <= kept) {
      ranges.push_back(cursor.take(room));
      room -= ranges.back().bytes;
      waiting += ranges.back().bytes;
      brought[cursor.launch()] += ranges.back().bytes;
    }
    moek::cuda::setPrefetch(part.launches[i].args, ranges);
  }
}

} // namespace moert
