#include "passes/moe/kernels/OpSeconds.h"

#include "passes/moe/kernels/WeightLayouts.h"

using namespace mlir;
using namespace mlir::moe;
using moek::GemmInfo;

moec::Situation moe::situationOf(func::FuncOp function, TypicalStep step,
                                 const moec::DeviceDesc &device) {
  double bytes = 0;
  function.walk([&](CostOpInterface op) {
    if (existsOn(op, device))
      bytes += double(op.getResidentWeightBytes());
  });
  return {step.tokens, step.cached, moec::stayInCache(bytes, device),
          sequencesOf(function, step.tokens)};
}

/// Returns the best gemm over all layouts that the weight may get, or null if
/// there is none.
static const GemmInfo *likelyGemm(const Product &product, PhaseAttr phase,
                                  const moec::DeviceDesc &device,
                                  bool mayPack) {
  auto type = cast<RankedTensorType>(product.weight.getType());
  auto format = getFormat(type.getElementType());
  if (!format)
    return nullptr;
  int64_t tokens = phase ? phase.getMaxTokens()
                         : std::max<int64_t>(1, int64_t(product.rows));
  const GemmInfo *best = nullptr;
  for (uint32_t number = 0; auto layout = moek::layoutFromNumber(number);
       ++number) {
    if (number > 0 && (!mayPack || !moek::hasLayout(*layout, *format,
                                                    type.getShape().back())))
      break;
    if (const GemmInfo *gemm = chooseGemm(*format, *layout, device, tokens))
      best = !best || gemm->isa >= best->isa ? gemm : best;
  }
  return best;
}

/// Returns whether a GPU lacks kernels for the format of one of the op's
/// weights.
static bool lacksFormats(Operation *op, const moec::DeviceDesc &device) {
  return device.isa == moek::Isa::Cuda &&
         llvm::any_of(op->getOperands(), [&](Value operand) {
           if (!isWeight(operand))
             return false;
           auto format = getFormat(
               cast<RankedTensorType>(operand.getType()).getElementType());
           return format &&
                  llvm::none_of(moek::gemmTable(), [&](const GemmInfo &gemm) {
                    return gemm.format == *format && gemm.isa == device.isa;
                  });
         });
}

double moe::opSeconds(Operation *op, const moec::Situation &situation,
                      const moec::DeviceDesc &device, bool mayPack) {
  auto costed = dyn_cast<CostOpInterface>(op);
  auto lowerable = dyn_cast<LowerableOpInterface>(op);
  if (!costed || !lowerable)
    return 0;
  if (isa<TransferOp>(op))
    return moec::transferSeconds(
        costed.getCost(situation.tokens, situation.cached).activationBytes,
        device);
  if (lacksFormats(op, device))
    return kNeverSeconds;
  double seconds = 0;
  for (const Instruction &instruction :
       lowerable.getInstructions({situation.tokens, situation.cached})) {
    auto *kernel = chooseKernel(instruction.op, device.isa);
    if (!kernel)
      return kNeverSeconds;
    // The same condition as in WeightLayouts::choose.
    bool packs =
        mayPack && (instruction.activation() || encodesForGemms(device.isa));
    SmallVector<Value, 2> weights = instruction.gemmWeights();
    SmallVector<const GemmInfo *> gemms;
    for (const Product &product : instruction.work.products)
      if (llvm::is_contained(weights, product.weight))
        gemms.push_back(likelyGemm(product, phaseOf(op), device, packs));
    seconds += moec::instructionSeconds(instruction.op, instruction.work,
                                        {kernel, gemms}, situation, device);
  }
  return seconds;
}

double moe::streamSeconds(CostOpInterface op, const Cost &cost, bool pinned,
                          const moec::DeviceDesc &host,
                          const moec::DeviceDesc &gpu) {
  return pinned ? moec::transferSeconds(cost.weightBytes, gpu)
                : moec::ringSeconds(double(op.getResidentWeightBytes()), host,
                                    gpu);
}

double moe::overheadSeconds(int64_t instructions, int64_t barriers,
                            const moec::DeviceDesc &device) {
  return double(instructions) * device.overheads.instruction +
         double(barriers) * device.overheads.barrier;
}
