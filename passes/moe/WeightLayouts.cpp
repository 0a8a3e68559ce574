#include "passes/moe/WeightLayouts.h"

using namespace mlir;
using namespace mlir::moe;
using moek::GemmInfo;
using moek::Layout;

void WeightLayouts::addUse(Value weight, const PlanStep &step, PhaseAttr phase,
                           const moec::DeviceDesc &device) {
  Uses &uses = uses_[{weightKey(weight), &device}];
  uses.tokens.push_back(phase.getMaxTokens());
  uses.ofFloats |= step.encodes && !encodesForGemms(device.isa);
  if (device.kind == moec::DeviceKind::Cpu)
    hosts_.try_emplace(weightKey(weight), &device);
}

void WeightLayouts::addStreamed(Value weight, const moec::DeviceDesc &device) {
  streamed_.insert({weightKey(weight), &device});
}

/// Whether filling up the last panel takes more than an eighth of the bytes.
static bool wastesRows(Layout layout, int64_t rows) {
  return moek::storedRows(layout, rows) - rows > rows / 8;
}

/// Whether each use has a gemm that is no worse than the one on GGUF rows, and
/// is not known to be slower.
static bool hasGemms(Layout layout, moek::Format format,
                     const moec::DeviceDesc &device, ArrayRef<int64_t> uses) {
  return llvm::all_of(uses, [&](int64_t tokens) {
    const GemmInfo *other = chooseGemm(format, layout, device, tokens);
    const GemmInfo *gguf = chooseGemm(format, Layout::Gguf, device, tokens);
    return other && (!gguf || (other->isa >= gguf->isa &&
                               (gateUpNeedsOneFormat(device.isa) ||
                                shareActivation(*other, *gguf)) &&
                               !clearlySlower(*other, *gguf, tokens, device)));
  });
}

static std::string text(std::string_view view) { return std::string(view); }

WeightLayouts::Choice
WeightLayouts::choose(Value weight, const moec::DeviceDesc &device) const {
  if (streamed_.contains({weightKey(weight), &device}))
    if (const moec::DeviceDesc *host = hosts_.lookup(weightKey(weight)))
      return {choose(weight, *host).layout,
              "read as " + host->name + " has them"};
  auto type = cast<RankedTensorType>(weight.getType());
  auto format = getFormat(type.getElementType());
  auto uses = uses_.find({weightKey(weight), &device});
  if (!format || uses == uses_.end() || !readsPackedRows(device.isa))
    return {};
  auto keep = [](const std::string &why) {
    return Choice{Layout::Gguf, "as in the model file: " + why};
  };
  if (!mayPack_)
    return keep("weights=reference");
  if (uses->second.ofFloats)
    return keep("what reads them takes floats");
  int64_t rows = type.getDimSize(type.getRank() - 2);
  int64_t cols = type.getDimSize(type.getRank() - 1);
  Choice kept = keep(text(moek::formatInfo(*format).name) +
                     " has no gemm on another layout for " +
                     text(moek::isaName(device.isa)) + " and every phase");
  for (uint32_t number = 1; auto layout = moek::layoutFromNumber(number);
       ++number) {
    if (!moek::hasLayout(*layout, *format, cols) ||
        !hasGemms(*layout, *format, device, uses->second.tokens))
      continue;
    std::string name = text(moek::layoutName(*layout));
    if (!wastesRows(*layout, rows))
      return {*layout, "packed as " + name};
    kept = keep(name + " would fill " + std::to_string(rows) + " rows up to " +
                std::to_string(moek::storedRows(*layout, rows)));
  }
  return kept;
}
