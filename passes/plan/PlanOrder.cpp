#include "llvm/ADT/DenseMap.h"
#include "passes/plan/PlanHazards.h"
#include "passes/plan/PlanPasses.h"

namespace mlir::plan {
#define GEN_PASS_DEF_PLANORDERPASS
#include "passes/plan/PlanPasses.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;

namespace {

/// The first level at which a region may be used again; the same level, if a
/// worker needs to wait for itself only.
struct Ready {
  int64_t toRead = 0;  ///< After its last write.
  int64_t toWrite = 0; ///< After its last read and write.
};

struct PlanOrder : plan::impl::PlanOrderPassBase<PlanOrder> {
  using PlanOrderPassBase::PlanOrderPassBase;

  void runOnOperation() override {
    getOperation()->walk([&](PhaseOp phase) { order(phase); });
  }

private:
  void order(PhaseOp phase) {
    llvm::DenseMap<Value, Ready> ready;
    SmallVector<std::pair<int64_t, InstOp>> insts;
    for (InstOp inst : phase.getBody().getOps<InstOp>()) {
      SmallVector<Access> accesses = accessesOf(inst);
      int64_t level = 0;
      for (const Access &access : accesses) {
        const Ready &region = ready[access.region];
        level = std::max(level, access.writes ? region.toWrite : region.toRead);
      }
      for (const Access &access : accesses) {
        Ready &region = ready[access.region];
        int64_t next = isPerWorker(access.region) ? level : level + 1;
        region.toWrite = std::max(region.toWrite, next);
        if (access.writes)
          region.toRead = next;
      }
      insts.emplace_back(level, inst);
    }
    auto sorted = insts;
    llvm::stable_sort(sorted, llvm::less_first());
    Operation *end = phase.getBind();
    for (auto [before, after] : llvm::zip(insts, sorted)) {
      numMoved += before.second != after.second;
      after.second->moveBefore(end);
    }
  }
};

} // namespace
