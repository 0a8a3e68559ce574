//===- ForeseeDevices.cpp - Where placement will put attention ------------===//
//
// Placement counts the weights, activations and cache of the form that an
// attention has, and the form depends on its device. So placement runs on a
// copy first, with forms for the target's first device; what it says of
// attention is noted for moe-absorb-mla, and placement decides anew what the
// forms leave.
//
//===----------------------------------------------------------------------===//

#include "compiler/Machine/Targets/TargetAttr.h"
#include "llvm/ADT/StringMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "passes/moe/Pipelines.h"
#include "passes/moe/Support.h"

using namespace mlir;
using namespace mlir::moe;

namespace {
/// What names the op of a form and the attention it was made of alike.
std::string keyOf(Operation *op) {
  auto function = op->getParentOfType<func::FuncOp>();
  return (function.getName() + "/" + labelOf(op)).str();
}

struct ForeseeDevices : PassWrapper<ForeseeDevices, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ForeseeDevices)

  explicit ForeseeDevices(OpPassManager placement)
      : placement(std::move(placement)) {}

  StringRef getArgument() const override { return "moe-foresee-devices"; }
  StringRef getDescription() const override {
    return "notes where placement would put attention";
  }

  void runOnOperation() override {
    SmallVector<Operation *> attentions;
    getOperation().walk([&](Operation *op) {
      if (readsCache(op))
        attentions.push_back(op);
    });
    auto target = moec::targetOf(getOperation());
    if (attentions.empty() || failed(target) || target->devices.size() == 1)
      return;

    OwningOpRef<ModuleOp> copy = getOperation().clone();
    PassManager manager(&getContext());
    static_cast<OpPassManager &>(manager) = placement;
    // What is wrong is said of the module itself.
    ScopedDiagnosticHandler quiet(&getContext(),
                                  [](Diagnostic &) { return success(); });
    if (failed(manager.run(*copy)))
      return;
    llvm::StringMap<StringAttr> devices;
    copy->walk([&](Operation *op) {
      if (readsCache(op))
        devices[keyOf(op)] = op->getAttrOfType<StringAttr>(kDeviceAttr);
    });
    for (Operation *op : attentions) {
      StringAttr device = devices.lookup(keyOf(op));
      if (!device) // In another form, whose op is named after it.
        device = devices.lookup(keyOf(op) + ".latent");
      if (device)
        op->setAttr(kDeviceAttr, device);
    }
  }

  OpPassManager placement;
};
} // namespace

std::unique_ptr<Pass> moe::createForeseeDevicesPass(OpPassManager placement) {
  return std::make_unique<ForeseeDevices>(std::move(placement));
}
