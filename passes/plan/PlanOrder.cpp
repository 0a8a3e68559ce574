#include "passes/plan/PlanHazards.h"
#include "passes/plan/PlanPasses.h"

namespace mlir::plan {
#define GEN_PASS_DEF_PLANORDERPASS
#include "passes/plan/PlanPasses.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;

namespace {

struct PlanOrder : plan::impl::PlanOrderPassBase<PlanOrder> {
  using PlanOrderPassBase::PlanOrderPassBase;

  void runOnOperation() override {
    getOperation()->walk([&](PhaseOp phase) { order(phase); });
  }

private:
  void order(PhaseOp phase) {
    PhaseSteps all(phase);
    std::vector<int64_t> places =
        moec::placesOf(all.steps, int(all.queues.size()), all.perWorker);
    SmallVector<std::pair<int64_t, InstOp>> sorted;
    for (auto [place, inst] : llvm::zip_equal(places, all.insts)) {
      inst->removeDiscardableAttr(kRunLastAttr);
      sorted.emplace_back(place, inst);
    }
    llvm::stable_sort(sorted, llvm::less_first());
    Operation *end = phase.getBind();
    for (auto [before, after] : llvm::zip(all.insts, sorted)) {
      numMoved += before != after.second;
      after.second->moveBefore(end);
    }
  }
};

} // namespace
