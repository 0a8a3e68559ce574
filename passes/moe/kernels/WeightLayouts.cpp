#include "passes/moe/kernels/WeightLayouts.h"

#include "passes/moe/kernels/OpSeconds.h"

using namespace mlir;
using namespace mlir::moe;
using moek::GemmInfo;
using moek::Layout;

void WeightLayouts::addUse(Value weight, const Instruction &instruction,
                           PhaseAttr phase, const moec::DeviceDesc &device) {
  Uses &uses = uses_[{weightSymbol(weight), &device}];
  uses.tokens.push_back(phase.getMaxTokens());
  uses.ofFloats |= !instruction.activation() && !encodesForGemms(device.isa);
  if (device.kind == moec::DeviceKind::Cpu)
    hosts_.try_emplace(weightSymbol(weight), &device);
}

void WeightLayouts::addReader(Value weight, const moec::DeviceDesc &device) {
  readers_[weightSymbol(weight)] |= device.kind == moec::DeviceKind::Cpu ? 1
                                    : device.sharesMemory                ? 2
                                                                         : 0;
}

void WeightLayouts::addStreamed(Value weight, const moec::DeviceDesc &device) {
  streamed_.insert({weightSymbol(weight), &device});
}

/// Returns whether padding the last panel takes more than an eighth of the
/// bytes.
static bool wastesRows(Layout layout, int64_t rows) {
  return moek::storedRows(layout, rows) - rows > rows / 8;
}

/// Returns why a layout is unsuitable: for some use there is no gemm for it, or
/// that gemm is worse than the one on GGUF rows or known to be slower. Returns
/// "" if it is suitable for all uses.
static std::string shortageOf(Layout layout, moek::Format format,
                              const moec::DeviceDesc &device,
                              ArrayRef<int64_t> uses) {
  for (int64_t tokens : uses) {
    std::string steps = " for steps of " + std::to_string(tokens) +
                        (tokens == 1 ? " token" : " tokens");
    const GemmInfo *other = chooseGemm(format, layout, device, tokens);
    const GemmInfo *gguf = chooseGemm(format, Layout::Gguf, device, tokens);
    if (!other)
      return "no gemm reads it" + steps;
    if (!gguf)
      continue;
    if (other->isa < gguf->isa)
      return "its gemm is made for a lesser instruction set" + steps;
    if (!gateUpNeedsOneFormat(device.isa) && !shareActivation(*other, *gguf))
      return "its gemm reads other activations" + steps;
    if (clearlySlower(*other, *gguf, tokens, device))
      return "its gemm was measured to be slower" + steps;
  }
  return "";
}

static std::string text(std::string_view view) { return std::string(view); }

WeightLayouts::Choice
WeightLayouts::choose(Value weight, const moec::DeviceDesc &device) const {
  if (streamed_.contains({weightSymbol(weight), &device}))
    if (const moec::DeviceDesc *host = hosts_.lookup(weightSymbol(weight)))
      return {choose(weight, *host).layout,
              "read as " + host->name + " has them"};
  auto type = cast<RankedTensorType>(weight.getType());
  auto format = getFormat(type.getElementType());
  auto uses = uses_.find({weightSymbol(weight), &device});
  if (!format || uses == uses_.end() || !readsPackedRows(device.isa))
    return {};
  int64_t rows = type.getDimSize(type.getRank() - 2);
  int64_t cols = type.getDimSize(type.getRank() - 1);
  SmallVector<Layout, 2> others;
  for (uint32_t number = 1; auto layout = moek::layoutFromNumber(number);
       ++number)
    if (moek::hasLayout(*layout, *format, cols))
      others.push_back(*layout);
  auto keep = [](const std::string &why) {
    return Choice{Layout::Gguf, "as in the model file: " + why};
  };
  auto keepForAll = [&](const std::string &why) {
    Choice kept = keep(why);
    for (Layout layout : others)
      kept.rejected.emplace_back(layout, why);
    return kept;
  };
  if (!mayLayOut(device, mayPack_))
    return keepForAll("weights=reference");
  if (readers_.lookup(weightSymbol(weight)) == 3 &&
      (device.sharesMemory || device.kind == moec::DeviceKind::Cpu))
    return keepForAll("CPU and GPU read them in one memory");
  if (uses->second.ofFloats)
    return keepForAll("the ops that read them take floats");
  Choice kept = keep(text(moek::formatInfo(*format).name) +
                     " has no gemm on another layout for " +
                     text(moek::isaName(device.isa)) + " and every phase");
  for (Layout layout : others) {
    std::string lack = shortageOf(layout, *format, device, uses->second.tokens);
    if (!lack.empty()) {
      kept.rejected.emplace_back(layout, lack);
      continue;
    }
    std::string name = text(moek::layoutName(layout));
    if (!wastesRows(layout, rows)) {
      Choice packed{layout, "packed as " + name, std::move(kept.rejected)};
      packed.rejected.emplace_back(
          Layout::Gguf, name + " has gemms for every phase that are no slower");
      return packed;
    }
    std::string waste = "would fill " + std::to_string(rows) + " rows up to " +
                        std::to_string(moek::storedRows(layout, rows));
    auto rejected = std::move(kept.rejected);
    rejected.emplace_back(layout, waste);
    kept = keep(name + " " + waste);
    kept.rejected = std::move(rejected);
  }
  return kept;
}
