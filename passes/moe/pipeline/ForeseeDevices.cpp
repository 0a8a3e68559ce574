//===- ForeseeDevices.cpp - Where placement will put attention ------------===//
//
// Placement counts the weights, activations and cache of the form that an
// attention has, and the form depends on its device. So placement runs on a
// copy first, with forms for the target's first device; what it says of
// attention is noted for moe-absorb-mla, and placement decides anew what the
// forms leave. But where all attention on the host, in forms and with caches
// for it, is predicted to be faster, the host is noted, and moe-hold-attention
// keeps it there: who adds a GPU to a fast host must not lose by it.
//
//===----------------------------------------------------------------------===//

#include "compiler/Machine/Targets/TargetAttr.h"
#include "llvm/ADT/StringMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "passes/moe/Support.h"
#include "passes/moe/pipeline/Pipelines.h"

#include <limits>

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
    SmallVector<Operation *> attentions = attentionsOf(getOperation());
    auto target = moec::targetOf(getOperation());
    if (attentions.empty() || failed(target) || target->devices.size() == 1)
      return;
    // What is wrong is said of the module itself.
    ScopedDiagnosticHandler quiet(&getContext(),
                                  [](Diagnostic &) { return success(); });
    Trial first = placed();
    if (!first.module)
      return;
    llvm::StringMap<StringAttr> devices;
    for (Operation *op : attentionsOf(*first.module))
      devices[keyOf(op)] = op->getAttrOfType<StringAttr>(kDeviceAttr);
    for (Operation *op : attentions) {
      StringAttr device = devices.lookup(keyOf(op));
      if (!device) // In another form, whose op is named after it.
        device = devices.lookup(keyOf(op) + ".latent");
      if (device)
        op->setAttr(kDeviceAttr, device);
    }

    auto host = StringAttr::get(&getContext(), target->host().name);
    if (areAllOn(attentions, host))
      return;
    Trial foreseen = placed();
    SmallVector<Attribute> noted;
    for (Operation *op : attentions) {
      noted.push_back(op->getAttr(kDeviceAttr));
      op->setAttr(kDeviceAttr, host);
    }
    getOperation()->setAttr(kAttentionOnHostAttr, UnitAttr::get(&getContext()));
    Trial onHost = placed();
    if (onHost.module && areAllOn(attentionsOf(*onHost.module), host) &&
        onHost.seconds < foreseen.seconds)
      return;
    getOperation()->removeAttr(kAttentionOnHostAttr);
    for (auto [op, device] : llvm::zip_equal(attentions, noted))
      if (device)
        op->setAttr(kDeviceAttr, device);
      else
        op->removeAttr(kDeviceAttr);
  }

private:
  /// A copy with devices and what is predicted of it; null where the pipeline
  /// fails.
  struct Trial {
    OwningOpRef<ModuleOp> module;
    double seconds = std::numeric_limits<double>::infinity();
  };
  Trial placed() {
    Trial trial;
    trial.module = getOperation().clone();
    PassManager manager(&getContext());
    static_cast<OpPassManager &>(manager) = placement;
    if (failed(manager.run(*trial.module)))
      return {};
    if (auto seconds =
            (*trial.module)->getAttrOfType<FloatAttr>(kRequestSecondsAttr))
      trial.seconds = seconds.getValueAsDouble();
    return trial;
  }

  static SmallVector<Operation *> attentionsOf(ModuleOp module) {
    SmallVector<Operation *> attentions;
    module.walk([&](Operation *op) {
      if (readsCache(op))
        attentions.push_back(op);
    });
    return attentions;
  }

  static bool areAllOn(ArrayRef<Operation *> ops, StringAttr device) {
    return llvm::all_of(
        ops, [&](Operation *op) { return op->getAttr(kDeviceAttr) == device; });
  }

  OpPassManager placement;
};

struct HoldAttention : PassWrapper<HoldAttention, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(HoldAttention)

  StringRef getArgument() const override { return "moe-hold-attention"; }
  StringRef getDescription() const override {
    return "attention on the host, where moe-foresee-devices found it faster";
  }

  void runOnOperation() override {
    auto target = moec::targetOf(getOperation());
    if (failed(target) || !getOperation()->hasAttr(kAttentionOnHostAttr))
      return;
    const std::string &host = target->host().name;
    getOperation().walk([&](Operation *op) {
      if ((!readsCache(op) && !isa<CacheOpInterface>(op)) ||
          op->hasAttr(kDeviceAttr))
        return;
      op->setAttr(kDeviceAttr, StringAttr::get(&getContext(), host));
      appendReason(op, "On " + host +
                           ": with attention and caches there, as it has "
                           "them, a request is predicted to be faster than "
                           "with attention on a GPU.");
    });
  }
};
} // namespace

std::unique_ptr<Pass> moe::createHoldAttentionPass() {
  return std::make_unique<HoldAttention>();
}

std::unique_ptr<Pass> moe::createForeseeDevicesPass(OpPassManager placement) {
  return std::make_unique<ForeseeDevices>(std::move(placement));
}
