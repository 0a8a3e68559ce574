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
    if (failed(target))
      return;
    const std::string &host = target->host().name;
    getOperation().walk([&](FileRowsOpInterface op) { keepTable(op, host); });
    if (!getOperation()->hasAttr(kAttentionOnHostAttr))
      return;
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

  /// The model file, of which the op reads rows, is the host's.
  void keepTable(FileRowsOpInterface op, const std::string &host) {
    auto type = cast<RankedTensorType>(op.getFileTable().getType());
    op->setAttr(kDeviceAttr, StringAttr::get(&getContext(), host));
    appendReason(op, "On " + host + ": the model file has its table of " +
                         formatCapacity(double(getTensorBytes(type))) +
                         ", which is not in memory; a token reads " +
                         Twine(int64_t(fileReadsOf(op))) +
                         " rows of it, each a page of the disk or more.");
  }
};

} // namespace
