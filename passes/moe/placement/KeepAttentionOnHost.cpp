#include "compiler/Machine/Targets/TargetAttr.h"
#include "passes/moe/Passes.h"
#include "passes/moe/Support.h"

namespace mlir::moe {
#define GEN_PASS_DEF_KEEPATTENTIONONHOSTPASS
#include "passes/moe/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {

struct KeepAttentionOnHost
    : moe::impl::KeepAttentionOnHostPassBase<KeepAttentionOnHost> {
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
                           ": a request is predicted to be faster with all "
                           "attention and caches there than with attention "
                           "on a GPU.");
    });
  }
};

} // namespace
