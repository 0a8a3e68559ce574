//===- PrintCost.cpp - What every op costs, as text -----------------------===//

#include "llvm/Support/Format.h"
#include "passes/moe/Passes.h"

namespace mlir::moe {

#define GEN_PASS_DEF_PRINTCOSTPASS
#include "passes/moe/Passes.h.inc"

namespace {
void print(llvm::raw_ostream &os, StringRef label, StringRef op,
           const Cost &cost, int64_t residentBytes) {
  os << "  " << label << ' ' << op
     << llvm::format(" flops=%.0f weights=%.0f activations=%.0f kv=%.0f",
                     cost.flops, cost.weightBytes, cost.activationBytes,
                     cost.kvBytes)
     << " resident=" << residentBytes << '\n';
}

struct PrintCost : impl::PrintCostPassBase<PrintCost> {
  using PrintCostPassBase::PrintCostPassBase;

  void runOnOperation() override {
    if (tokens < 1 || context < 0) {
      getOperation().emitError()
          << "expected tokens above 0 and context not below 0, got "
          << int64_t(tokens) << " and " << int64_t(context);
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>())
      printFunction(function);
    markAllAnalysesPreserved();
  }

private:
  void printFunction(func::FuncOp function) {
    llvm::raw_ostream &os = llvm::outs();
    os << '@' << function.getName() << " tokens=" << tokens
       << " context=" << context << '\n';
    Cost total;
    int64_t resident = 0;
    function.walk([&](CostOpInterface op) {
      Cost cost = op.getCost(tokens, context);
      int64_t bytes = op.getResidentWeightBytes();
      auto label = op->getAttrOfType<LabelAttr>(kLabelAttr);
      print(os, label ? label.text() : "-", op->getName().getStringRef(), cost,
            bytes);
      total += cost;
      resident += bytes;
    });
    print(os, "total", "-", total, resident);
  }
};
} // namespace

} // namespace mlir::moe
