#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/MathExtras.h"
#include "passes/plan/PlanHazards.h"
#include "passes/plan/PlanPasses.h"

namespace mlir::plan {
#define GEN_PASS_DEF_PLANORDERPASS
#include "passes/plan/PlanPasses.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;

namespace {

/// The distance between two levels. GPU instructions that follow a product of
/// their level get the places in between.
constexpr int64_t kLevel = int64_t(1) << 20;

/// The first place at which a region may be used again. It is a multiple of
/// kLevel, or, on a GPU, the place after the previous use. It is the same place
/// if a worker only has to wait for itself.
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
  static bool isOnGpu(InstOp inst) {
    return inst.getDevice().getDefiningOp<DeviceOp>().getKind() ==
           DeviceKind::Cuda;
  }

  /// For a GPU, returns whether the instruction begins a level: a product, or a
  /// copy that takes one block a long time. Others are fused with preceding
  /// ones into one launch (kernels/cuda/Fuse.h).
  static bool isLarge(InstOp inst) {
    constexpr int64_t kLongCopy = 4096; // Bytes per token.
    if (inst.getSpec()->kind == moert::OpKind::Copies)
      return inst.getArgument(0).getDefiningOp<BufferOp>().getBytes(1) >
             kLongCopy;
    return inst.getKernels().size() > 1;
  }

  void order(PhaseOp phase) {
    llvm::DenseMap<Value, Ready> ready;
    // By queue, the last place so far.
    llvm::DenseMap<Value, int64_t> last;
    SmallVector<std::pair<int64_t, InstOp>> insts;
    for (InstOp inst : phase.getBody().getOps<InstOp>()) {
      SmallVector<Access> accesses = accessesOf(inst);
      bool onGpu = isOnGpu(inst);
      int64_t place = 0;
      for (const Access &access : accesses) {
        const Ready &region = ready[access.region];
        place = std::max(place, access.writes ? region.toWrite : region.toRead);
      }
      if (!onGpu || isLarge(inst))
        place = int64_t(llvm::alignTo(uint64_t(place), kLevel));
      int64_t &lastHere = last[inst.getQueue()];
      if (inst->removeDiscardableAttr(kRunLastAttr))
        place = std::max(place, lastHere);
      lastHere = std::max(lastHere, place);
      for (const Access &access : accesses) {
        Ready &region = ready[access.region];
        int64_t next = isPerWorker(access.region) ? place
                       : onGpu                    ? place + 1
                                                  : place + kLevel;
        region.toWrite = std::max(region.toWrite, next);
        if (access.writes)
          region.toRead = next;
      }
      insts.emplace_back(place, inst);
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
