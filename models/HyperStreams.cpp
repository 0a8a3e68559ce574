//===- HyperStreams.cpp ---------------------------------------------------===//

#include "models/HyperStreams.h"

#include "models/Limits.h"

using mlir::Value;
using moert::StatusOr;
namespace moe = mlir::moe;

namespace moec {

StatusOr<HyperStreams> readHyperStreams(const HyperParams &params) {
  HyperStreams streams;
  MOE_ASSIGN_OR_RETURN(
      streams.count, params.integer("hyper_connection.count", 1, kMaxStreams));
  MOE_ASSIGN_OR_RETURN(
      streams.iterations,
      params.integer("hyper_connection.sinkhorn_iterations", 1, 1000));
  MOE_ASSIGN_OR_RETURN(streams.eps,
                       params.positive("hyper_connection.epsilon", {}, true));
  return streams;
}

StatusOr<Value> buildStreamWeights(ModelBuilder &model, const HyperStreams &s,
                                   const std::string &name, double eps, Value x,
                                   bool readsOnly) {
  int64_t n = s.count, columns = readsOnly ? n : n * (n + 2);
  Value normed = model.rmsNormOnly(x, name + "norm", eps);
  MOE_ASSIGN_OR_RETURN(Value logits,
                       model.linear(normed, name + "fn", columns));
  MOE_ASSIGN_OR_RETURN(Value scale,
                       model.vector(name + "scale.weight", readsOnly ? 1 : 3));
  MOE_ASSIGN_OR_RETURN(Value base, model.vector(name + "base.weight", columns));
  return model
      .create<moe::HyperWeightsOp>(name + "weights", logits.getType(), logits,
                                   scale, base, uint64_t(n),
                                   uint64_t(s.iterations), llvm::APFloat(s.eps))
      .getResult();
}

Value collapseStreams(ModelBuilder &model, const HyperStreams &s,
                      const std::string &name, Value x, Value weights) {
  return model.create<moe::HyperCollapseOp>(name + "in",
                                            model.rows(columnsOf(x) / s.count),
                                            x, weights, uint64_t(s.count));
}

Value spreadStreams(ModelBuilder &model, const HyperStreams &s,
                    const std::string &name, Value y, Value x, Value weights) {
  return model.create<moe::HyperSpreadOp>(name + "out",
                                          model.rows(columnsOf(y) * s.count), y,
                                          x, weights, uint64_t(s.count));
}

} // namespace moec
