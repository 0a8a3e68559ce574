//===- Limits.h - Bounds of a model's sizes ---------------------*- C++ -*-===//
//
// Products of two sizes do not overflow. Real models are two orders of
// magnitude below these bounds.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_MODELS_LIMITS_H
#define MOE_MODELS_LIMITS_H

#include <cstdint>

namespace moec {

/// Twice the layers of real models. Plans have space for a few hundred layers,
/// and a larger number would only fail late.
inline constexpr int64_t kMostLayers = 256;
inline constexpr int64_t kMostHeads = 1 << 14;
inline constexpr int64_t kMostSize = 1 << 20;
inline constexpr int64_t kMaxStreams = 8; // Same as moek::kMaxStreams.
inline constexpr int64_t kMostTokens = 1 << 24;
/// Outputs of a classifier.
inline constexpr uint64_t kMostLabels = 1 << 16;

/// Bounds of factors that scale positions, frequencies and scores. Within them,
/// all derived numbers are above 0 and finite as floats, including YaRN's 1 +
/// 0.1 ln(factor).
inline constexpr double kLeastScale = 1e-4;
inline constexpr double kMostScale = 1e6;

} // namespace moec

#endif // MOE_MODELS_LIMITS_H
