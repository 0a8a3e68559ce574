//===- Median.h - The median of samples -------------------------*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_MEDIAN_H
#define MOE_TOOLS_MOERT_MEDIAN_H

#include <algorithm>
#include <vector>

namespace moert {

/// Returns the median: for an even number of samples the mean of the middle
/// two; 0 for none.
inline double median(std::vector<double> samples) {
  if (samples.empty())
    return 0;
  std::ranges::sort(samples);
  size_t middle = samples.size() / 2;
  return samples.size() % 2 ? samples[middle]
                            : (samples[middle - 1] + samples[middle]) / 2;
}

} // namespace moert

#endif // MOE_TOOLS_MOERT_MEDIAN_H
