//===- lfm2.cpp - LFM2 with and without experts ---------------------------===//
//
// arXiv 2511.23404. Most layers have a short convolution between two gates
// instead of attention: rows B, C and x come from in_proj, and the result is
// out_proj of C * conv(B * x).
//
//===----------------------------------------------------------------------===//

#include "kernels/Types.h"
#include "models/Builders.h"
#include "models/Transformer.h"

using mlir::Value;
using moert::StatusOr;
namespace moe = mlir::moe;

namespace moec {

namespace {
/// Returns x * gate, element by element.
Value gated(ModelBuilder &model, const std::string &label, Value x,
            Value gate) {
  return model.create<moe::GateMulOp>(label, x.getType(), x, gate,
                                      moe::Gate::Identity);
}

StatusOr<Value> buildConvolution(ModelBuilder &model, int64_t taps,
                                 int64_t layer, const std::string &block,
                                 Value x) {
  const int64_t columns = columnsOf(x);
  const std::string name = block + "shortconv.";
  auto project = [&](const char *part, int64_t index) {
    return model.linearRows(x, name + part, name + "in_proj", 3 * columns,
                            index * columns, columns);
  };
  MOE_ASSIGN_OR_RETURN(Value before, project("in_b", 0));
  MOE_ASSIGN_OR_RETURN(Value after, project("in_c", 1));
  MOE_ASSIGN_OR_RETURN(Value y, project("in_x", 2));
  y = gated(model, name + "gate_b", y, before);
  MOE_ASSIGN_OR_RETURN(Value conv,
                       model.vectors(name + "conv.weight", columns, taps));
  MOE_ASSIGN_OR_RETURN(Value bias,
                       model.vectorIfAny(name + "conv.bias", columns));
  y = model.create<moe::ShortConvOp>(name + "conv", y.getType(), y, conv, bias,
                                     uint64_t(layer));
  y = gated(model, name + "gate_c", y, after);
  return model.linear(y, name + "out_proj", columns);
}
} // namespace

moert::Status buildLfm2(ModelBuilder &model) {
  TransformerTraits traits;
  traits.mayHaveStates = true;
  traits.mayBeDense = true;
  traits.experts.scoring = moe::Scoring::Sigmoid;
  traits.experts.normalize = true;
  traits.windows.period = WindowTraits::kAll;
  traits.windows.tokens = 0;
  MOE_ASSIGN_OR_RETURN(Transformer lfm2, readTransformer(model, traits));
  MOE_ASSIGN_OR_RETURN(int64_t taps, model.params().integer("shortconv.l_cache",
                                                            1, moek::kMaxTaps));
  auto convolve = [&](int64_t layer, const std::string &block, Value x) {
    return buildConvolution(model, taps, layer, block, x);
  };
  return buildTransformer(model, lfm2, convolve);
}

} // namespace moec
