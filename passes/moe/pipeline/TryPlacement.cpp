//===- TryPlacement.cpp - Trial placement for attention -------------------===//
//
// Placement depends on the form of attention (its weights, activations and
// cache), and the form depends on the device of attention. So placement first
// runs on a copy of the module, with the forms for the target's first device.
// Its devices for attention are recorded for moe-absorb-mla, which chooses the
// final forms, and placement then runs again. If a request is predicted to be
// faster with all attention on the host, in the host's forms and KV types, the
// host is recorded instead, and moe-keep-attention-on-host keeps attention
// there: adding a GPU must never slow a plan down.
//
//===----------------------------------------------------------------------===//

#include "compiler/Machine/Targets/TargetAttr.h"
#include "llvm/ADT/StringMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "passes/moe/Passes.h"
#include "passes/moe/Support.h"
#include "passes/moe/pipeline/Pipelines.h"
#include "passes/moe/placement/SearchCounts.h"

#include <limits>

namespace mlir::moe {
#define GEN_PASS_DEF_TRYPLACEMENTPASS
#include "passes/moe/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
/// Returns a key that is the same for an attention op and for the op of a form
/// that replaces it.
std::string keyOf(Operation *op) {
  auto function = op->getParentOfType<func::FuncOp>();
  return (function.getName() + "/" + labelOf(op)).str();
}

struct TryPlacement : moe::impl::TryPlacementPassBase<TryPlacement> {
  TryPlacement() : TryPlacement(defaultPlacement()) {}
  explicit TryPlacement(OpPassManager placement)
      : placement(std::move(placement)) {}

  void runOnOperation() override {
    SmallVector<Operation *> attentions = attentionsOf(getOperation());
    auto target = moec::targetOf(getOperation());
    if (attentions.empty() || failed(target) || target->devices.size() == 1)
      return;
    // Errors of a trial are dropped: the real run reports them.
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
      if (!device) // Another form has a label derived from this one.
        device = devices.lookup(keyOf(op) + ".latent");
      if (device)
        op->setAttr(kDeviceAttr, device);
    }

    auto host = StringAttr::get(&getContext(), target->host().name);
    if (areAllOn(attentions, host))
      return;
    Trial onGpu = placed();
    SmallVector<Attribute> noted;
    for (Operation *op : attentions) {
      noted.push_back(op->getAttr(kDeviceAttr));
      op->setAttr(kDeviceAttr, host);
    }
    getOperation()->setAttr(kAttentionOnHostAttr, UnitAttr::get(&getContext()));
    Trial onHost = placed();
    if (onHost.module && areAllOn(attentionsOf(*onHost.module), host) &&
        onHost.seconds < onGpu.seconds)
      return;
    getOperation()->removeAttr(kAttentionOnHostAttr);
    for (auto [op, device] : llvm::zip_equal(attentions, noted))
      if (device)
        op->setAttr(kDeviceAttr, device);
      else
        op->removeAttr(kDeviceAttr);
  }

private:
  /// A placed copy of the module and its predicted seconds; null if the
  /// pipeline fails.
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
    SearchCounts(*trial.module).since(getOperation()).addTo(getOperation());
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
} // namespace

std::unique_ptr<Pass> moe::createTryPlacementPass(OpPassManager placement) {
  return std::make_unique<TryPlacement>(std::move(placement));
}
