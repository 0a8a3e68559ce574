//===- RoutedExperts.h - Router, routed and shared experts ------*- C++ -*-===//

#ifndef MOE_MODELS_ROUTEDEXPERTS_H
#define MOE_MODELS_ROUTEDEXPERTS_H

#include "models/ModelBuilder.h"

namespace moec {

/// A feed-forward part in which each token uses `used` of `experts` FFNs, and
/// all tokens the shared ones.
struct RoutedExperts {
  int64_t experts = 0, used = 0, groups = 1, groupsUsed = 1;
  /// Groups are ranked by their two best experts even where no bias shifts the
  /// selection; without this, by their best then, as in DeepSeek-V2.
  bool ranksPairs = false;
  int64_t inner = 0;       ///< Rows of a routed expert's gate and up.
  int64_t sharedInner = 0; ///< Of the shared experts, one wide FFN; 0: unknown.
  mlir::moe::Scoring scoring = mlir::moe::Scoring::Softmax;
  mlir::moe::Activation activation = mlir::moe::Activation::Silu;
  /// Of gate and up, of routed and of shared experts; 0: none.
  double limit = 0, sharedLimit = 0;
  bool normalize = false; ///< Weights of the used ones sum to 1.
  double scale = 1;       ///< Of the weights.
};

/// The keys expert_*. Keys that are absent, or 0 where writers that know no
/// value store 0, take what `defaults` says of scoring and inner; weights are
/// normalised where `defaults` or the file says so.
moert::StatusOr<RoutedExperts> readRoutedExperts(const HyperParams &params,
                                                 RoutedExperts defaults);

/// Rows of `x` [T, hidden] through the experts of `block` ("blk.3."). What the
/// file has is taken: biases of router, selection and experts, scales of their
/// results, shared experts
/// and their gate. Experts are stacked in ffn_{gate,up,down}_exps, gate and up
/// fused in ffn_gate_up_exps, or tensors of their own, ffn_up.7. The router
/// sees `routed` instead of x, where that is given. Where the file has
/// ffn_gate_tid2eid, the experts are those it has for each of `tokens`.
moert::StatusOr<mlir::Value>
buildRoutedExperts(ModelBuilder &model, const RoutedExperts &config,
                   const std::string &block, mlir::Value x,
                   mlir::Value routed = {}, mlir::Value tokens = {});

} // namespace moec

#endif // MOE_MODELS_ROUTEDEXPERTS_H
