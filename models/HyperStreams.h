//===- HyperStreams.h - Residual streams with learned mixing ----*- C++ -*-===//
//
// Hyper-connections: a row holds several residual streams. A layer's part
// reads a weighted sum of them, and its result is spread over all of them
// while the streams mix by a doubly stochastic matrix.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_MODELS_HYPERSTREAMS_H
#define MOEC_MODELS_HYPERSTREAMS_H

#include "models/ModelBuilder.h"

namespace moec {

struct HyperStreams {
  int64_t count, iterations;
  double eps;
};

moert::StatusOr<HyperStreams> readHyperStreams(const HyperParams &params);

/// Returns the weights of a part [T, streams * (2 + streams)], or with
/// `readsOnly` those for the final read of the streams. Names of tensors and
/// values begin with `name`.
moert::StatusOr<mlir::Value> buildStreamWeights(ModelBuilder &model,
                                                const HyperStreams &s,
                                                const std::string &name,
                                                double eps, mlir::Value x,
                                                bool readsOnly);

/// Returns the weighted sum of the streams x.
mlir::Value collapseStreams(ModelBuilder &model, const HyperStreams &s,
                            const std::string &name, mlir::Value x,
                            mlir::Value weights);

/// Returns the streams x, mixed, plus the result y of a part; without x and
/// weights, y in each stream.
mlir::Value spreadStreams(ModelBuilder &model, const HyperStreams &s,
                          const std::string &name, mlir::Value y,
                          mlir::Value x = {}, mlir::Value weights = {});

} // namespace moec

#endif // MOEC_MODELS_HYPERSTREAMS_H
