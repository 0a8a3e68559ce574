//===- RoutedExperts.h - Router, routed and shared experts ------*- C++ -*-===//

#ifndef MOE_MODELS_ROUTEDEXPERTS_H
#define MOE_MODELS_ROUTEDEXPERTS_H

#include "models/ModelBuilder.h"

namespace moec {

/// A feed-forward layer in which each token uses `used` of `experts` routed
/// FFNs, and all tokens use the shared ones.
struct RoutedExperts {
  int64_t experts = 0, used = 0, groups = 1, groupsUsed = 1;
  /// Whether groups are ranked by their two best experts even without a
  /// selection bias. If not, they are then ranked by the best one, as in
  /// DeepSeek-V2.
  bool ranksPairs = false;
  int64_t inner = 0;       ///< Rows of a routed expert's gate and up.
  int64_t sharedInner = 0; ///< Rows of all shared experts; 0: unknown.
  int64_t shared = 0;      ///< Shared experts; 0: unknown.
  mlir::moe::Scoring scoring = mlir::moe::Scoring::Softmax;
  mlir::moe::Activation activation = mlir::moe::Activation::Silu;
  /// Clamping limits of gate and up, of routed and of shared experts; 0: none.
  double limit = 0, sharedLimit = 0;
  bool clampsActivated = false; ///< Clamps the gate after its activation.
  bool normalize = false;       ///< Whether weights of used experts sum to 1.
  double scale = 1;             ///< Factor on the weights.
  /// Rows of the small experts' gate and up, the experts that share one of
  /// them, and the factor on its result; 0 rows: none.
  int64_t smallInner = 0, perSmall = 1;
  double smallScale = 1;
  /// Whether experts have a gate. Without, they compute down of
  /// activation(u) * u, where u is up of x.
  bool gated = true;
  /// If not 0, routed and shared experts have SiTU instead of SwiGLU: `limit`
  /// bounds gates, and this number bounds ups.
  double softLimit = 0;
  /// Columns of the rows that routed experts read and return, which
  /// ffn_latent_down and ffn_latent_up map, or ffn_routed_down and
  /// ffn_routed_up, with a norm of the sum in front of the latter if the file
  /// has ffn_routed_norm; 0: the model's own rows.
  int64_t latent = 0;
  double latentEps = 0; ///< Epsilon of the norm of the latent.
  double sumScale = 1;  ///< Factor on the sum of routed and shared experts.
  /// Whether weights multiply what experts read instead of what they return;
  /// only with one expert per token.
  bool weighsInput = false;
  /// Whether the router reads the rows with which the layer began.
  bool readsBegun = false;
  /// Whether a layer without ffn_gate_inp is dense, because files have no key
  /// that says so.
  bool whereRouters = false;
};

/// Reads the keys expert_*. `defaults` gives scoring and inner if their keys
/// are absent or 0, which some writers store for unknown values. Weights are
/// normalised if `defaults` or the file says so.
moert::StatusOr<RoutedExperts> readRoutedExperts(const HyperParams &params,
                                                 RoutedExperts defaults);

/// Builds the experts of `block` ("blk.3.") for rows `x` [T, hidden]. Uses
/// optional tensors: biases of router, selection and experts, scales of their
/// results, shared experts and their gate. Experts are stacked in
/// ffn_{gate,up,down}_exps, with gate and up fused in ffn_gate_up_exps, or are
/// separate tensors such as ffn_up.7. The router reads `routed` instead of x,
/// if given. If the file has ffn_gate_tid2eid, that table gives the experts of
/// each of `tokens`.
moert::StatusOr<mlir::Value>
buildRoutedExperts(ModelBuilder &model, const RoutedExperts &config,
                   const std::string &block, mlir::Value x,
                   mlir::Value routed = {}, mlir::Value tokens = {});

} // namespace moec

#endif // MOE_MODELS_ROUTEDEXPERTS_H
