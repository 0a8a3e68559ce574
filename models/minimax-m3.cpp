//===- minimax-m3.cpp - MiniMax-M3, text ----------------------------------===//
//
// Layers with an indexer attend to blocks of positions that it chooses; others
// attend to all. Every FFN has the clamped SwiGLU of gpt-oss. The router is
// MiniMax-M2's.
//
//===----------------------------------------------------------------------===//

#include "models/BlockIndexer.h"
#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildMinimaxM3(ModelBuilder &model) {
  TransformerTraits traits;
  traits.experts.scoring = mlir::moe::Scoring::Sigmoid;
  traits.experts.normalize = true;
  traits.experts.activation = mlir::moe::Activation::ClampedSwiglu;
  MOE_ASSIGN_OR_RETURN(Transformer minimax, readTransformer(model, traits));
  MOE_ASSIGN_OR_RETURN(BlockIndexer indexer,
                       readBlockIndexer(model, minimax.attention.front()));
  minimax.choose = [&, indexer](int64_t layer, const std::string &block,
                                mlir::Value x) -> moert::StatusOr<BlockChoice> {
    if (!model.has(block + "indexer.q_proj"))
      return BlockChoice{};
    return buildBlockChoice(model, indexer, layer, block, x);
  };
  return buildTransformer(model, minimax);
}

} // namespace moec
