#include "runtime/device/cuda/CudaPrefetch.h"

#include "kernels/cuda/Fuse.h"
#include "kernels/cuda/WeightsAhead.h"

namespace moert {

using moek::cuda::Prefetch;
using moek::cuda::WeightReader;

static std::vector<WeightReader> readersOf(const CudaPart &part) {
  std::vector<WeightReader> readers;
  for (const CudaLaunch &launch : part.launches) {
    WeightReader reader;
    reader.canPrefetch = launch.canPrefetch;
    reader.otherBytes = launch.otherBytes;
    for (const Prefetch &weight : launch.weights)
      reader.weights.push_back(weight.bytes);
    readers.push_back(std::move(reader));
  }
  for (const CudaSegment &segment : part.segments)
    if (!segment.waits.empty())
      readers[segment.first].isAfterWait = true;
  return readers;
}

std::vector<bool> lastBeforeWaits(const CudaPart &part) {
  return moek::cuda::lastBeforeWaits(readersOf(part));
}

void prefetchWeights(CudaPart &part, const CudaGpu &gpu) {
  auto ahead = moek::cuda::weightsAhead(readersOf(part), gpu.l2Bytes,
                                        gpu.peakBytesPerSecond());
  for (size_t i = 0; i < part.launches.size(); ++i) {
    if (!part.launches[i].canPrefetch)
      continue;
    std::vector<Prefetch> ranges;
    for (const moek::cuda::AheadRange &range : ahead[i])
      ranges.push_back(
          {part.launches[range.launch].weights[range.weight].begin +
               range.offset,
           range.bytes});
    moek::cuda::setPrefetch(part.launches[i].args, ranges);
  }
}

} // namespace moert
