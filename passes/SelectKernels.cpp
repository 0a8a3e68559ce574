#include "compiler/Targets/TargetAttr.h"
#include "passes/KernelSelection.h"
#include "passes/Passes.h"
#include "passes/Support.h"
#include "runtime/schema/OpTable.h"

namespace mlir::moe {
#define GEN_PASS_DEF_SELECTKERNELSPASS
#include "passes/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;
using moek::GemmInfo;
using moek::KernelInfo;

namespace {

StringRef toRef(std::string_view text) {
  return StringRef(text.data(), text.size());
}

StringAttr nameAttr(MLIRContext *context, std::string_view name) {
  return StringAttr::get(context, toRef(name));
}

/// Selects for the ops of one function.
class Selector {
public:
  Selector(const moec::TargetDesc &target, PhaseAttr phase)
      : target(target), phase(phase) {}

  LogicalResult select(LowerableOpInterface op) {
    auto name = op->getAttrOfType<StringAttr>(kDeviceAttr);
    const moec::DeviceDesc *device =
        name ? target.find(std::string_view(name.getValue())) : nullptr;
    if (!device)
      return op.emitError() << labelOf(op) << " is on no device of the target; "
                            << "run moe-place-devices first";

    SmallVector<PlanStep> steps = op.getPlanSteps();
    SmallVector<const GemmInfo *> gemms;
    for (const PlanStep &step : steps)
      for (Value weight : step.gemmWeights) {
        const GemmInfo *gemm = gemmFor(weight, *device);
        if (!gemm)
          return reportGemm(op, weight, *device);
        gemms.push_back(gemm);
      }

    MLIRContext *context = op.getContext();
    SmallVector<Attribute> kernelNames, gemmNames;
    for (const PlanStep &step : withQuantize(steps, gemms)) {
      const KernelInfo *kernel = chooseKernel(step.op, device->isa);
      if (!kernel)
        return reportKernel(op, step.op, *device);
      kernelNames.push_back(nameAttr(context, kernel->name));
    }
    for (const GemmInfo *gemm : gemms)
      gemmNames.push_back(nameAttr(context, gemm->name));
    op->setAttr(kKernelsAttr, ArrayAttr::get(context, kernelNames));
    op->setAttr(kGemmsAttr, ArrayAttr::get(context, gemmNames));
    gemmCount += gemms.size();
    return success();
  }

  int64_t gemmCount = 0;

private:
  const GemmInfo *gemmFor(Value weight, const moec::DeviceDesc &device) {
    auto type = cast<RankedTensorType>(weight.getType());
    auto format = getFormat(type.getElementType());
    if (!format)
      return nullptr;
    // An expert sees any number of a step's tokens, from one.
    int64_t minTokens = type.getRank() > 2 ? 1 : phase.getMinTokens();
    return chooseGemm(*format, device.isa, minTokens, phase.getMaxTokens());
  }

  void describe(InFlightDiagnostic &diagnostic,
                const moec::DeviceDesc &device) {
    diagnostic << " on " << device.name << " (" << toRef(isaName(device.isa))
               << ") in phase " << phase.getName().getValue() << " ("
               << phase.getMinTokens() << " to " << phase.getMaxTokens()
               << " tokens); available: ";
  }

  LogicalResult reportGemm(Operation *op, Value weight,
                           const moec::DeviceDesc &device) {
    Type element = cast<RankedTensorType>(weight.getType()).getElementType();
    InFlightDiagnostic diagnostic =
        op->emitError() << labelOf(op) << ": no gemm for " << op->getName()
                        << " with weights of " << element;
    describe(diagnostic, device);
    auto format = getFormat(element);
    bool any = false;
    for (const GemmInfo &info : moek::gemmTable())
      if (format && info.format == *format) {
        diagnostic << (any ? ", " : "") << toRef(info.name) << " (from "
                   << info.minTokens << " tokens)";
        any = true;
      }
    if (!any)
      diagnostic << "none";
    return diagnostic;
  }

  LogicalResult reportKernel(Operation *op, moek::OpCode code,
                             const moec::DeviceDesc &device) {
    InFlightDiagnostic diagnostic =
        op->emitError() << labelOf(op) << ": no kernel for instruction "
                        << toRef(moert::opTable()[size_t(code)].name) << " of "
                        << op->getName();
    describe(diagnostic, device);
    bool any = false;
    for (const KernelInfo &info : moek::kernelTable())
      if (info.op == code) {
        diagnostic << (any ? ", " : "") << toRef(info.name);
        any = true;
      }
    if (!any)
      diagnostic << "none";
    return diagnostic;
  }

  const moec::TargetDesc &target;
  PhaseAttr phase;
};

struct SelectKernels : moe::impl::SelectKernelsPassBase<SelectKernels> {
  using SelectKernelsPassBase::SelectKernelsPassBase;

  void runOnOperation() override {
    auto target = moec::targetOf(getOperation());
    if (failed(target))
      return signalPassFailure();
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>()) {
      PhaseAttr phase = phaseOf(function);
      if (!phase) {
        function.emitError()
            << "@" << function.getName() << " has no " << kPhaseAttr
            << "; run moe-specialize-phases first";
        return signalPassFailure();
      }
      Selector selector(*target, phase);
      WalkResult result = function.walk([&](LowerableOpInterface op) {
        return failed(selector.select(op)) ? WalkResult::interrupt()
                                           : WalkResult::advance();
      });
      if (result.wasInterrupted())
        return signalPassFailure();
      numGemms += selector.gemmCount;
    }
  }
};

} // namespace
