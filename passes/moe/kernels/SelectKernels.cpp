#include "compiler/Machine/Targets/TargetAttr.h"
#include "dialects/moe/WeightTable.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "passes/moe/Passes.h"
#include "passes/moe/Support.h"
#include "passes/moe/kernels/AlternativeSeconds.h"
#include "passes/moe/kernels/KernelSelection.h"
#include "passes/moe/kernels/OpSeconds.h"
#include "passes/moe/kernels/WeightLayouts.h"

namespace mlir::moe {
#define GEN_PASS_DEF_SELECTKERNELSPASS
#include "passes/moe/Passes.h.inc"
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

/// Returns the device of an op; emits an error if it has none.
const moec::DeviceDesc *deviceOf(LowerableOpInterface op,
                                 const moec::TargetDesc &target) {
  auto name = op->getAttrOfType<StringAttr>(kDeviceAttr);
  const moec::DeviceDesc *device =
      name ? target.find(std::string_view(name.getValue())) : nullptr;
  if (!device)
    op.emitError() << labelOf(op) << " is on no device of the target; "
                   << "run moe-place-devices first";
  return device;
}

/// Weights of a format without a fast kernel, and their cost per decoded token.
struct SlowFormat {
  llvm::SetVector<StringAttr> weights;
  double seconds = 0;
  double readSeconds = 0; ///< Time for only reading the weights.
};
/// Slow formats by device and format.
using SlowFormats =
    llvm::MapVector<std::pair<const moec::DeviceDesc *, moek::Format>,
                    SlowFormat>;

/// Selects the kernels of one phase's ops.
class Selector {
public:
  Selector(const moec::TargetDesc &target, const WeightTable &weights,
           const WeightLayouts &layouts, PhaseAttr phase,
           AlternativeSeconds &seconds)
      : target(target), weights(weights), layouts(layouts), phase(phase),
        seconds(seconds) {}

  LogicalResult select(LowerableOpInterface op) {
    const moec::DeviceDesc *device = deviceOf(op, target);
    if (!device)
      return failure();

    Instructions instructions = op.getInstructions({});
    SmallVector<const GemmInfo *> gemms;
    for (const Instruction &instruction : instructions)
      for (Value weight : instruction.gemmWeights()) {
        const GemmInfo *gemm = gemmFor(weight, *device);
        if (!gemm)
          return reportGemm(op, weight, *device);
        gemms.push_back(gemm);
      }

    MLIRContext *context = op.getContext();
    SmallVector<KernelCallAttr> calls;
    ArrayRef<const GemmInfo *> rest = gemms;
    for (const Instruction &instruction : withQuantize(instructions, gemms)) {
      const KernelInfo *driver = chooseKernel(instruction.op, device->isa);
      if (!driver)
        return reportKernel(op, instruction, *device);
      SmallVector<StringAttr> names;
      for (const GemmInfo *gemm :
           rest.take_front(instruction.gemmWeights().size()))
        names.push_back(nameAttr(context, gemm->name));
      rest = rest.drop_front(names.size());
      calls.push_back(
          KernelCallAttr::get(context, nameAttr(context, driver->name), names));
    }
    explainLayouts(op, instructions, *device);
    rejectOthers(op, gemms, *device);
    if (isOfOneToken(phase))
      priceSlowFormats(op, gemms, *device);
    op->setAttr(kKernelsAttr, KernelsAttr::get(context, calls));
    gemmCount += gemms.size();
    return success();
  }

  int64_t gemmCount = 0;
  SlowFormats slowFormats;

private:
  /// Records the layouts and gemms that were rejected for the op's weights.
  void rejectOthers(LowerableOpInterface op, ArrayRef<const GemmInfo *> gemms,
                    const moec::DeviceDesc &device) {
    if (gemms.empty())
      return;
    const moec::Situation &situation = seconds.situationOf(op, device);
    llvm::SmallDenseSet<Value> seen;
    for (const Instruction &instruction :
         op.getInstructions({situation.tokens, situation.cached}))
      for (Value weight : instruction.gemmWeights()) {
        const GemmInfo &gemm = *gemms.front();
        gemms = gemms.drop_front();
        if (!seen.insert(weight).second)
          continue;
        auto price = [&](const GemmInfo *of) {
          double sum = of ? 0 : -1;
          for (const Product &product : instruction.work.products)
            if (of && product.weight == weight)
              sum += moec::gemmSeconds(product, *of, situation, device);
          return sum;
        };
        StringRef name = nameOf(weight);
        for (const auto &[layout, why] :
             layouts.choose(weight, device).rejected) {
          double other = price(
              chooseGemm(gemm.format, layout, device, phase.getMaxTokens()));
          reject(op,
                 {Alternative::Layout, std::string(moek::layoutName(layout)),
                  name, other, std::string(moek::layoutName(gemm.layout)),
                  price(&gemm), why});
        }
        for (const auto &[other, why] :
             rejectedGemms(gemm, device, phase.getMaxTokens()))
          reject(op, {Alternative::Kernel, std::string(other->name), name,
                      price(other), std::string(gemm.name), price(&gemm), why});
      }
  }

  StringRef nameOf(Value weight) const {
    WeightOp symbol = weights.of(weight);
    return symbol.isFileTensor() ? symbol.getSymName()
                                 : StringRef("the computed weight");
  }

  /// Records the products of `op` that use a reference gemm.
  void priceSlowFormats(LowerableOpInterface op,
                        ArrayRef<const GemmInfo *> gemms,
                        const moec::DeviceDesc &device) {
    if (device.isa == moek::Isa::Ref)
      return;
    moec::Situation situation =
        situationOf(op->getParentOfType<func::FuncOp>(),
                    {1, typicalStep(phase).cached}, device);
    for (const Instruction &instruction :
         op.getInstructions({1, situation.cached}))
      for (Value weight : instruction.gemmWeights()) {
        const GemmInfo *gemm = gemms.front();
        gemms = gemms.drop_front();
        if (gemm->isa != moek::Isa::Ref)
          continue;
        SlowFormat &slow = slowFormats[{&device, gemm->format}];
        slow.weights.insert(weightSymbol(weight));
        for (const Product &product : instruction.work.products) {
          if (product.weight != weight)
            continue;
          slow.seconds += moec::gemmSeconds(product, *gemm, situation, device);
          slow.readSeconds +=
              product.bytes() / device.read.planned(moec::Peak::kAssumedRead);
        }
      }
  }

  const GemmInfo *gemmFor(Value weight, const moec::DeviceDesc &device) {
    auto type = cast<RankedTensorType>(weight.getType());
    auto format = getFormat(type.getElementType());
    if (!format)
      return nullptr;
    return chooseGemm(*format, layouts.choose(weight, device).layout, device,
                      phase.getMaxTokens());
  }

  /// Appends the layouts of the op's weights to its reason, with their names if
  /// the layouts differ.
  void explainLayouts(Operation *op, const Instructions &instructions,
                      const moec::DeviceDesc &device) {
    llvm::MapVector<StringRef, llvm::SetVector<StringRef>> namesOf;
    for (const Instruction &instruction : instructions)
      for (Value weight : instruction.gemmWeights()) {
        std::string reason = layouts.choose(weight, device).reason;
        if (!reason.empty())
          namesOf[StringAttr::get(op->getContext(), reason).getValue()].insert(
              nameOf(weight));
      }
    for (auto &[reason, names] : namesOf)
      appendReason(op, (namesOf.size() == 1 ? std::string("Weights")
                                            : llvm::join(names, ", ")) +
                           " " + reason + ".");
  }

  LogicalResult reportGemm(Operation *op, Value weight,
                           const moec::DeviceDesc &device) {
    Type element = cast<RankedTensorType>(weight.getType()).getElementType();
    auto format = getFormat(element);
    std::string name;
    if (format)
      name = moek::formatInfo(*format).name;
    else
      llvm::raw_string_ostream(name) << element;
    return report(op, "no kernel multiplies " + name + " weights", device);
  }

  LogicalResult reportKernel(Operation *op, const Instruction &instruction,
                             const moec::DeviceDesc &device) {
    return report(
        op, "there is no kernel for " + std::string(instruction.spec().name),
        device);
  }

  /// Reports a missing kernel, with the device and the range of tokens.
  LogicalResult report(Operation *op, const std::string &what,
                       const moec::DeviceDesc &device) {
    return userError(op,
                     labelOf(op) + ": " + what + " on " + device.name + " (" +
                         toRef(isaName(device.isa)) + ") for " +
                         Twine(phase.getMinTokens()) + " to " +
                         Twine(phase.getMaxTokens()) + " tokens",
                     "use a target without " + device.name +
                         ", or a model file in another format");
  }

  const moec::TargetDesc &target;
  const WeightTable &weights;
  const WeightLayouts &layouts;
  PhaseAttr phase;
  AlternativeSeconds &seconds;
};

struct SelectKernels : moe::impl::SelectKernelsPassBase<SelectKernels> {
  using SelectKernelsPassBase::SelectKernelsPassBase;

  void runOnOperation() override {
    auto target = moec::targetOf(getOperation());
    if (failed(target))
      return signalPassFailure();
    // A weight's layout must suit every phase, so all phases are visited before
    // kernels are selected.
    bool mayPack = weights != WeightsMode::Reference;
    WeightLayouts layouts(mayPack);
    if (failed(forEachOp([&](LowerableOpInterface op, PhaseAttr phase) {
          const moec::DeviceDesc *device = deviceOf(op, *target);
          if (!device)
            return failure();
          for (Value operand : op->getOperands())
            if (isWeight(operand))
              layouts.addReader(operand, *device);
          bool streamed = op->hasAttr(kStreamedAttr);
          for (const Instruction &instruction : op.getInstructions({}))
            for (Value weight : instruction.gemmWeights())
              if (streamed)
                layouts.addStreamed(weight, *device);
              else
                layouts.addUse(weight, instruction, phase, *device);
          return success();
        })))
      return signalPassFailure();
    SlowFormats slow;
    AlternativeSeconds seconds(mayPack);
    WeightTable table(getOperation());
    if (failed(forEachOp([&](LowerableOpInterface op, PhaseAttr phase) {
          Selector selector(*target, table, layouts, phase, seconds);
          LogicalResult result = selector.select(op);
          numGemms += selector.gemmCount;
          for (auto &[key, more] : selector.slowFormats) {
            SlowFormat &sum = slow[key];
            sum.weights.insert(more.weights.begin(), more.weights.end());
            sum.seconds += more.seconds;
            sum.readSeconds += more.readSeconds;
          }
          return result;
        })))
      return signalPassFailure();
    for (const auto &[key, format] : slow)
      addNote(getOperation(), text(*key.first, key.second, format));
  }

private:
  static std::string text(const moec::DeviceDesc &device, moek::Format format,
                          const SlowFormat &slow) {
    return llvm::formatv(
        "{0} has no fast kernel on {1} ({2}): {3} weight{4} in it take{5} "
        "{6:F1} ms per token, while reading their bytes takes {7:F1} ms; "
        "a model file in another format is faster",
        toRef(moek::formatInfo(format).name), device.name,
        toRef(isaName(device.isa)), slow.weights.size(),
        slow.weights.size() == 1 ? "" : "s",
        slow.weights.size() == 1 ? "s" : "", slow.seconds * 1e3,
        slow.readSeconds * 1e3);
  }

  /// Calls `visit` for each op of each phase. It goes on after a failure, so
  /// that a problem of all layers is reported for all of them.
  LogicalResult
  forEachOp(llvm::function_ref<LogicalResult(LowerableOpInterface, PhaseAttr)>
                visit) {
    bool anyFailed = false;
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>()) {
      PhaseAttr phase = phaseOf(function);
      if (!phase)
        return function.emitError()
               << "@" << function.getName() << " has no " << kPhaseAttr
               << "; run moe-specialize-phases first";
      function.walk([&](LowerableOpInterface op) {
        anyFailed |= failed(visit(op, phase));
      });
    }
    return failure(anyFailed);
  }
};

} // namespace
