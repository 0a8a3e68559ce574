#include "passes/WeightLayouts.h"

using namespace mlir;
using namespace mlir::moe;
using moek::GemmInfo;
using moek::Layout;

TokenRange moe::gemmTokens(Value weight, PhaseAttr phase) {
  bool isExperts = cast<RankedTensorType>(weight.getType()).getRank() > 2;
  return {isExperts ? 1 : phase.getMinTokens(), phase.getMaxTokens()};
}

void WeightLayouts::addUse(Value weight, PhaseAttr phase,
                           const moec::DeviceDesc &device) {
  uses_[{weightKey(weight), &device}].push_back(gemmTokens(weight, phase));
}

/// Whether filling up the last panel takes more than an eighth of the bytes.
static bool wastesRows(Layout layout, int64_t rows) {
  return moek::storedRows(layout, rows) - rows > rows / 8;
}

static bool hasGemms(Layout layout, moek::Format format, moek::Isa isa,
                     ArrayRef<TokenRange> uses) {
  return llvm::all_of(uses, [&](TokenRange tokens) {
    const GemmInfo *other =
        chooseGemm(format, layout, isa, tokens.min, tokens.max);
    const GemmInfo *gguf =
        chooseGemm(format, Layout::Gguf, isa, tokens.min, tokens.max);
    return other && (!gguf || (other->isa >= gguf->isa &&
                               other->activation == gguf->activation));
  });
}

Layout WeightLayouts::layoutOf(Value weight,
                               const moec::DeviceDesc &device) const {
  auto type = cast<RankedTensorType>(weight.getType());
  auto format = getFormat(type.getElementType());
  auto uses = uses_.find({weightKey(weight), &device});
  if (!mayPack_ || !format || uses == uses_.end())
    return Layout::Gguf;
  int64_t rows = type.getDimSize(type.getRank() - 2);
  int64_t cols = type.getDimSize(type.getRank() - 1);
  for (uint32_t number = 1; auto layout = moek::layoutFromNumber(number);
       ++number)
    if (moek::hasLayout(*layout, *format, cols) && !wastesRows(*layout, rows) &&
        hasGemms(*layout, *format, device.isa, uses->second))
      return *layout;
  return Layout::Gguf;
}
