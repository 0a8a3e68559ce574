#include "kernels/KvCache.h"
#include "passes/moe/Passes.h"
#include "passes/moe/Support.h"
#include "passes/moe/graph/Rings.h"
#include "runtime/base/Text.h"

namespace mlir::moe {
#define GEN_PASS_DEF_SIZECACHESPASS
#include "passes/moe/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {

struct SizeCaches : moe::impl::SizeCachesPassBase<SizeCaches> {
  using SizeCachesPassBase::SizeCachesPassBase;

  void runOnOperation() override {
    FailureOr<int64_t> rows = rowsOf(getOperation());
    if (failed(rows))
      return signalPassFailure();
    getOperation()->setAttr(kKvRowsAttr,
                            Builder(&getContext()).getI64IntegerAttr(*rows));
  }

private:
  FailureOr<int64_t> rowsOf(ModuleOp module) {
    int64_t context = 1, sequences = 1;
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      if (PhaseAttr phase = phaseOf(function)) {
        context = std::max(context, phase.getContextLength());
        sequences = std::max(sequences, phase.getSequences());
      }
    if (kvBudget < 0)
      return module.emitError()
             << "kv-budget is " << int64_t(kvBudget) << ", expected at least 0";
    int64_t page = kvPageBytes(module);
    // Without a cache there is nothing to keep within the budget.
    if (kvBudget == 0 || page == 0)
      return kvRowsOf(context, sequences);
    int64_t one = kvRowsOf(context);
    int64_t most = INT32_MAX / moek::kKvPage; // Rows are numbered by int32_t.
    int64_t states = stateBytes(module);
    int64_t rows =
        std::min(std::max<int64_t>(kvBudget - states, 0) / page, most) *
        moek::kKvPage;
    if (rows < one)
      return userError(
          module,
          "a KV cache of " + formatCapacity(double(kvBudget)) + " holds " +
              Twine(rows) + " tokens, less than a context of " + Twine(context),
          "give it at least " +
              moert::sizeWord(uint64_t(one / moek::kKvPage * page + states)));
    return rows;
  }
};

} // namespace
