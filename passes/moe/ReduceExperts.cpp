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

  void runOnOperation() override {
    ModuleOp module = getOperation();
    // All routers are checked before any is changed.
    WalkResult checked = module.walk([&](RouterOp router) {
      if (experts >= 1 && uint64_t(experts) <= router.getTopK())
        return WalkResult::advance();
      (void)userError(router,
                      Twine(int64_t(experts)) +
                          " experts per token are asked for, but the model "
                          "uses " +
                          Twine(router.getTopK()),
                      "give a number from 1 to " + Twine(router.getTopK()));
      return WalkResult::interrupt();
    });
    if (checked.wasInterrupted())
      return signalPassFailure();

    module.walk([&](RouterOp router) {
      if (router.getTopK() == uint64_t(experts))
        return;
      appendReason(router, "Experts per token lowered from " +
                               Twine(router.getTopK()) + " to " +
                               Twine(int64_t(experts)) + " on request.");
      router.setTopK(experts);
      for (Value result : router.getResults()) {
        auto type = cast<RankedTensorType>(result.getType());
        result.setType(RankedTensorType::get({type.getDimSize(0), experts},
                                             type.getElementType()));
      }
      ++numRouters;
    });

    if (auto model = module->getAttrOfType<DictionaryAttr>(kModelAttr);
        model && model.contains(kExpertsUsed)) {
      NamedAttrList list(model);
      list.set(kExpertsUsed, Builder(module).getI64IntegerAttr(experts));
      module->setAttr(kModelAttr, list.getDictionary(module.getContext()));
    }
  }
};

} // namespace
