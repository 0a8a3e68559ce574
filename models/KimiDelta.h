//===- KimiDelta.h - Kimi Delta Attention (KDA) -----------------*- C++ -*-===//
//
// Delta nets in which each channel of a key has a decay of its own (arXiv
// 2510.26692), beside layers with multi-head latent attention.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_MODELS_KIMIDELTA_H
#define MOE_MODELS_KIMIDELTA_H

#include "models/FeedForward.h"
#include "models/LatentAttention.h"

namespace moec {

struct KimiDelta {
  int64_t heads = 0, size = 0; ///< Elements of a head's query, key and value.
  int64_t taps = 0;            ///< Length of the convolutions.
  double eps = 0;              ///< Epsilon of the norm of results.
  /// Least logarithm of a decay, below 0; 0: decays are unbounded.
  double floor = 0;
};

/// Epsilon of the lengths of queries and keys, and of the norms of latents,
/// which files do not have. llama.cpp uses that of the other norms.
inline constexpr double kKimiEps = 1e-6;

/// Reads attention.head_count and the keys kda.* and ssm.conv_kernel.
moert::StatusOr<KimiDelta> readKimiDelta(ModelBuilder &model, double eps);

/// Builds the delta net of `layer` for normed rows `x`. Queries, keys and
/// values come from attn_{q,k,v} and a convolution each; decays from ssm_f_a,
/// and output gates from ssm_g_a, both with a second factor _b if the file has
/// it, or output gates from ssm_g.
moert::StatusOr<mlir::Value> buildKimiDelta(ModelBuilder &model,
                                            const KimiDelta &net, int64_t layer,
                                            const std::string &block,
                                            mlir::Value x);

/// Builds a model of delta nets and latent attention, which layers with a
/// number of heads in attention.head_count_kv have. `rotates` is as in
/// readLatentAttention(); FFNs are routed, with limits if files have them.
moert::Status buildKimiTransformer(ModelBuilder &model, bool rotates,
                                   const RoutedExperts &defaults);

} // namespace moec

#endif // MOE_MODELS_KIMIDELTA_H
