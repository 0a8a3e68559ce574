#include "compiler/Machine/CostModel/WeightsInL2.h"

#include "compiler/Machine/CostModel/CostModel.h"

#include <algorithm>

namespace moec {

/// What a multiprocessor takes from L2: 16 bytes a cycle, or more, at about
/// 2 GHz.
static constexpr double kL2BytesPerSecond = 16 * 2e9;

double secondsSavedByL2(double bytes, const moek::GemmInfo *gemm, double rows,
                        const DeviceDesc &device) {
  const double memory = 1 / device.peakRead();
  const double l2 = 1 / (kL2BytesPerSecond * device.cores);
  std::optional<double> measured;
  if (gemm)
    measured = measuredSecondsPerByte(*gemm, rows, /*cached=*/false, device);
  const double taken =
      measured.value_or(1 / device.read.planned(Peak::kAssumedRead));
  // If a kernel takes longer for a byte than memory does, something else limits
  // it for the rest of that time, and faster weights help as much less.
  return bytes * std::max(memory - l2, 0.0) * std::min(memory / taken, 1.0);
}

} // namespace moec
