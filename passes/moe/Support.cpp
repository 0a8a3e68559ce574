#include "passes/moe/Support.h"

#include "kernels/KvCache.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::moe;

TypicalStep moe::typicalStep(PhaseAttr phase) {
  return moec::typicalStep(phase.getKind(), phase.getMaxTokens(),
                           phase.getContextLength());
}

bool moe::isOfOneToken(PhaseAttr phase) {
  return has(phase.getKind(), moert::kOfEveryToken);
}

int64_t moe::kvRowsOf(int64_t context, int64_t sequences) {
  return int64_t(llvm::alignTo(uint64_t(context), moek::kKvPage)) * sequences;
}

int64_t moe::kvRowsOf(ModuleOp module, int64_t context) {
  auto rows = module->getAttrOfType<IntegerAttr>(kKvRowsAttr);
  return rows ? rows.getInt() : kvRowsOf(context);
}

/// Returns the layers whose caches and states `op` uses.
static SmallVector<int64_t, 2> cachesOf(Operation *op) {
  if (fileTableOf(op))
    return {};
  if (auto state = dyn_cast<StateOpInterface>(op))
    return {state.getStateLayer()};
  SmallVector<int64_t, 2> layers;
  auto add = [&](ValueRange values) {
    for (Value value : values)
      if (auto cache = value.getDefiningOp<CacheOpInterface>();
          cache && isa<KvType>(value.getType()))
        layers.push_back(cache.getCacheLayer());
  };
  add(op->getResults());
  add(op->getOperands());
  return layers;
}

CacheLayers::CacheLayers(ModuleOp module) {
  llvm::EquivalenceClasses<int64_t> together;
  module.walk([&](CostOpInterface op) {
    SmallVector<int64_t, 2> layers = cachesOf(op);
    for (int64_t layer : layers)
      together.unionSets(layers.front(), layer);
  });
  for (auto it = together.begin(); it != together.end(); ++it)
    if (it->isLeader()) {
      llvm::iterator_range members(together.member_begin(it),
                                   together.member_end());
      int64_t first = *llvm::min_element(members);
      for (int64_t layer : members)
        firstOf[layer] = first;
    }
}

std::optional<int64_t> CacheLayers::of(Operation *op) const {
  SmallVector<int64_t, 2> layers = cachesOf(op);
  if (layers.empty())
    return std::nullopt;
  return firstOf.lookup(layers.front());
}

int64_t moe::stateRowsOf(ModuleOp module) {
  int64_t sequences = 1;
  for (auto function : module.getOps<func::FuncOp>())
    if (PhaseAttr phase = phaseOf(function))
      sequences = std::max(sequences, phase.getSequences());
  return stateRowsOf(sequences);
}

bool moe::readsCache(Operation *op) {
  return llvm::any_of(op->getOperandTypes(), llvm::IsaPred<KvType>);
}

LogicalResult moe::userError(Operation *op, const Twine &cause,
                             const Twine &fix) {
  InFlightDiagnostic diagnostic = op->emitError(cause);
  diagnostic.attachNote() << fix;
  return diagnostic;
}

void moe::addNote(ModuleOp module, const Twine &note) {
  SmallVector<Attribute> notes;
  if (auto before = module->getAttrOfType<ArrayAttr>(kNotesAttr))
    llvm::append_range(notes, before);
  notes.push_back(StringAttr::get(module.getContext(), note));
  module->setAttr(kNotesAttr, ArrayAttr::get(module.getContext(), notes));
}

bool moe::hasExperts(ModuleOp module) {
  return module.walk([](ExpertsOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

void moe::appendReason(Operation *op, const Twine &sentence) {
  std::string text;
  if (auto reason = op->getAttrOfType<StringAttr>(kReasonAttr))
    text = (reason.getValue() + " ").str();
  text += sentence.str();
  op->setAttr(kReasonAttr, StringAttr::get(op->getContext(), text));
}

//===----------------------------------------------------------------------===//
// Formatted numbers
//===----------------------------------------------------------------------===//

namespace {
/// Formats `value` in the first of `units` in which it is below `step`, with
/// one decimal (none in the first unit).
std::string scaled(double value, double step, ArrayRef<StringRef> units) {
  size_t unit = 0;
  // 999.95 would print as 1000.0.
  while (unit + 1 < units.size() && std::abs(value) >= step - 0.05) {
    value /= step;
    ++unit;
  }
  std::string text;
  llvm::raw_string_ostream(text)
      << llvm::format(unit == 0 ? "%.0f" : "%.1f", value) << ' ' << units[unit];
  return text;
}
} // namespace

std::string moe::formatCapacity(double bytes) {
  return scaled(bytes, 1024, {"B", "KiB", "MiB", "GiB"});
}

std::string moe::formatTraffic(double bytes) {
  return scaled(bytes, 1000, {"B", "kB", "MB", "GB"});
}

std::string moe::formatSeconds(double seconds) {
  return scaled(seconds * 1e9, 1000, {"ns", "us", "ms", "s"});
}

std::string moe::formatPercent(double fraction) {
  if (fraction > 0 && fraction < 0.001)
    return "under 0.1 %";
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.1f %%", fraction * 100);
  return text;
}

StringAttr moe::deviceOfResult(Operation *op) {
  if (auto transfer = dyn_cast<TransferOp>(op))
    return transfer.getToAttr();
  return op->getAttrOfType<StringAttr>(kDeviceAttr);
}

bool moe::existsOn(Operation *op, const moec::DeviceDesc &device) {
  auto only = op->getAttrOfType<ArrayAttr>(kOnlyOnAttr);
  return !only || llvm::any_of(only, [&](Attribute name) {
    return cast<StringAttr>(name).getValue() == StringRef(device.name);
  });
}
