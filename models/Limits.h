//===- Limits.h - Bounds of a model's sizes ---------------------*- C++ -*-===//
//
// Products of two sizes stay far from overflow; real models stay two orders of
// magnitude below.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_MODELS_LIMITS_H
#define MOE_MODELS_LIMITS_H

#include <cstdint>

namespace moec {

/// Twice what models have. Plans have room for some hundred layers, and what
/// exceeds it would show late.
inline constexpr int64_t kMostLayers = 256;
inline constexpr int64_t kMostHeads = 1 << 14;
inline constexpr int64_t kMostSize = 1 << 20;
inline constexpr int64_t kMostStreams = 8; // kernels/SparseArgs.h
inline constexpr int64_t kMostTokens = 1 << 24;

/// Of factors by which positions, frequencies and scores are scaled. Between
/// these, what is computed of them is above 0 and finite as a float, YaRN's
/// 1 + 0.1 ln(factor) too.
inline constexpr double kLeastScale = 1e-4;
inline constexpr double kMostScale = 1e6;

} // namespace moec

#endif // MOE_MODELS_LIMITS_H
