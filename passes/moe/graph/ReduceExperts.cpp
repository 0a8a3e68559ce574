#include "passes/moe/graph/ReduceExperts.h"

#include "passes/moe/Passes.h"
#include "passes/moe/Support.h"

namespace mlir::moe {
#define GEN_PASS_DEF_REDUCEEXPERTSPASS
#include "passes/moe/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Key of moe.model: experts per token.
constexpr llvm::StringLiteral kExpertsUsed = "experts_used";

struct ReduceExperts : moe::impl::ReduceExpertsPassBase<ReduceExperts> {
  using ReduceExpertsPassBase::ReduceExpertsPassBase;
  ReduceExperts() = default;
  explicit ReduceExperts(ArrayRef<int64_t> layers) : layers(layers) {}

  void runOnOperation() override {
    ModuleOp module = getOperation();
    // All routers are checked before any is changed.
    bool any = false;
    WalkResult checked = module.walk([&](RouterOp router) {
      any = true;
      int64_t count = countOf(router);
      if (count >= 1 && uint64_t(count) <= router.getTopK())
        return WalkResult::advance();
      (void)userError(router,
                      Twine(count) +
                          " experts per token are asked for, but the model "
                          "uses " +
                          Twine(router.getTopK()),
                      "give a number from 1 to " + Twine(router.getTopK()));
      return WalkResult::interrupt();
    });
    if (checked.wasInterrupted())
      return signalPassFailure();
    if (!any) {
      (void)userError(module,
                      "a number of experts per token is asked for, but no "
                      "layer of the model chooses among experts",
                      "compile without --experts");
      return signalPassFailure();
    }

    int64_t least = 0, most = 0;
    module.walk([&](RouterOp router) {
      int64_t count = countOf(router);
      least = most == 0 ? count : std::min(least, count);
      most = std::max(most, count);
      if (router.getTopK() == uint64_t(count))
        return;
      appendReason(router, "Experts per token lowered from " +
                               Twine(router.getTopK()) + " to " + Twine(count) +
                               (layers.empty() ? " on request."
                                               : " by the router profile."));
      router.setTopK(count);
      for (Value result : router.getResults()) {
        auto type = cast<RankedTensorType>(result.getType());
        result.setType(RankedTensorType::get({type.getDimSize(0), count},
                                             type.getElementType()));
      }
      ++numRouters;
    });

    auto model = module->getAttrOfType<DictionaryAttr>(kModelAttr);
    if (!model || !model.contains(kExpertsUsed))
      return;
    auto before = model.getAs<IntegerAttr>(kExpertsUsed);
    if (!layers.empty() && before)
      addNote(module, "layers use " + std::to_string(least) +
                          (least == most ? "" : " to " + std::to_string(most)) +
                          " of the " + std::to_string(before.getInt()) +
                          " experts per token that the model was trained with");
    NamedAttrList list(model);
    list.set(kExpertsUsed, Builder(module).getI64IntegerAttr(most));
    module->setAttr(kModelAttr, list.getDictionary(module.getContext()));
  }

private:
  SmallVector<int64_t> layers; ///< Empty: `experts` in all of them.

  int64_t countOf(RouterOp router) const {
    if (layers.empty())
      return experts;
    std::optional<int64_t> layer = layerOf(router);
    return layer && *layer < int64_t(layers.size()) && layers[*layer] != 0
               ? layers[*layer]
               : int64_t(router.getTopK());
  }
};

} // namespace

std::unique_ptr<Pass>
moe::createReduceLayerExpertsPass(ArrayRef<int64_t> layers) {
  return std::make_unique<ReduceExperts>(layers);
}
