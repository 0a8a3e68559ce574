//===- Transformer.h - Grouped attention and (routed) FFNs ------*- C++ -*-===//
//
// Most architectures are one graph, told apart by tensors that are there or
// not, keys, and the few things below that files do not say.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_MODELS_TRANSFORMER_H
#define MOE_MODELS_TRANSFORMER_H

#include "models/Rope.h"
#include "models/RoutedExperts.h"

namespace moec {

struct TransformerTraits {
  RopeTraits rope;
  /// Layers 0, 2, 4 ... see attention.sliding_window tokens alone.
  bool windows = false;
  /// What stands for keys of experts that the file does not have; `inner` is
  /// then as wide as its tensors.
  RoutedExperts experts;
  bool mayBeDense = false; ///< Files without expert_count are without experts.
};

moert::Status buildTransformer(ModelBuilder &model,
                               const TransformerTraits &traits);

} // namespace moec

#endif // MOE_MODELS_TRANSFORMER_H
