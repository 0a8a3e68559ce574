//===- HeadNorm.h - The norm between hidden states and logits ---*- C++ -*-===//

#ifndef MOE_RUNTIME_ENGINE_HEADNORM_H
#define MOE_RUNTIME_ENGINE_HEADNORM_H

#include "runtime/plan/Plan.h"
#include "runtime/plan/WeightFiles.h"

#include <optional>
#include <span>
#include <vector>

namespace moert {

/// The RMS norm that a plan's logits phase begins with. Phases give rows before
/// it, because the logits phase contains it; embeddings are rows after it. Such
/// rows are few, so that it is computed here and not by kernels of a device.
class HeadNorm {
public:
  /// Finds the norm in a verified plan. Returns none if the logits phase begins
  /// with something else.
  static std::optional<HeadNorm> find(const Plan &plan,
                                      const WeightFiles &files);

  /// Returns x / rms(x) * weight, valid until the next call. `row` has as many
  /// elements as the plan's hidden states.
  std::span<const float> apply(std::span<const float> row);

private:
  std::vector<float> weight_; ///< [hidden]; empty if there is no weight.
  double eps_ = 0;
  std::vector<float> result_;
};

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_HEADNORM_H
