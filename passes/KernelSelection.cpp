#include "passes/KernelSelection.h"

#include "compiler/CostModel/CostModel.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::moe;
using moek::GemmInfo;
using moek::Isa;
using moek::KernelInfo;

static StringRef toRef(std::string_view text) {
  return StringRef(text.data(), text.size());
}

bool moe::runsOn(Isa kernel, Isa device) {
  if (kernel == Isa::Cuda || device == Isa::Cuda)
    return kernel == device;
  return kernel <= device;
}

/// Tiles have 16 rows. Fewer tokens than half of them leave AMX's gemms to the
/// vector units, but with coarser activations than the vector gemms read.
static constexpr int64_t kFewTokens = 8;

/// The best instruction set that gemms of a phase are taken from.
static Isa gemmIsa(Isa device, int64_t maxTokens) {
  return device == Isa::Amx && maxTokens <= kFewTokens ? Isa::Avx512 : device;
}

moek::Encoding moe::encodingOn(Isa isa, int64_t maxTokens) {
  isa = gemmIsa(isa, maxTokens);
  bool coarse = llvm::any_of(moek::gemmTable(), [&](const GemmInfo &gemm) {
    return gemm.activation == moek::Encoding::A8K && runsOn(gemm.isa, isa);
  });
  return coarse ? moek::Encoding::A8K : moek::Encoding::A8;
}

bool moe::shareActivation(const GemmInfo &a, const GemmInfo &b) {
  return moek::reads(a.activation, b.activation) ||
         moek::reads(b.activation, a.activation);
}

const KernelInfo *moe::chooseKernel(moek::OpCode op, Isa isa) {
  const KernelInfo *best = nullptr;
  for (const KernelInfo &info : moek::kernelTable())
    if (info.op == op && runsOn(info.isa, isa) &&
        (!best || info.isa > best->isa))
      best = &info;
  return best;
}

bool moe::clearlySlower(const GemmInfo &a, const GemmInfo &b, int64_t rows,
                        const moec::DeviceDesc &device) {
  auto seconds = [&](const GemmInfo &gemm) {
    return moec::measuredSecondsPerByte(gemm, double(rows), /*cached=*/false,
                                        device);
  };
  auto ofA = seconds(a), ofB = seconds(b);
  return ofA && ofB && *ofA > 1.05 * *ofB;
}

const GemmInfo *moe::chooseGemm(moek::Format format, moek::Layout layout,
                                const moec::DeviceDesc &device,
                                int64_t minTokens, int64_t maxTokens) {
  Isa isa = gemmIsa(device.isa, maxTokens);
  const GemmInfo *best = nullptr;
  auto better = [&](const GemmInfo &info) {
    return !best || (info.isa > best->isa
                         ? !clearlySlower(info, *best, maxTokens, device)
                         : clearlySlower(*best, info, maxTokens, device));
  };
  for (const GemmInfo &info : moek::gemmTable())
    if (info.format == format && info.layout == layout &&
        runsOn(info.isa, isa) && info.minTokens <= minTokens &&
        info.maxTokens >= maxTokens && better(info))
      best = &info;
  return best;
}

bool moe::readsPackedRows(Isa isa) {
  return llvm::any_of(moek::gemmTable(), [&](const GemmInfo &gemm) {
    return gemm.layout != moek::Layout::Gguf && runsOn(gemm.isa, isa);
  });
}

bool moe::readsPackedRows(Isa isa, moek::Format format, int64_t cols) {
  return llvm::any_of(moek::gemmTable(), [&](const GemmInfo &gemm) {
    return gemm.layout != moek::Layout::Gguf && runsOn(gemm.isa, isa) &&
           gemm.format == format && moek::hasLayout(gemm.layout, format, cols);
  });
}

SmallVector<PlanStep> moe::withQuantize(ArrayRef<PlanStep> steps,
                                        ArrayRef<const GemmInfo *> gemms) {
  SmallVector<PlanStep> all;
  bool encoded[2] = {false, false};
  for (const PlanStep &step : steps) {
    auto own = gemms.take_front(step.gemmWeights.size());
    gemms = gemms.drop_front(own.size());
    bool readsA8 = !step.encodes && llvm::any_of(own, [](const GemmInfo *gemm) {
      return moek::isA8(gemm->activation);
    });
    bool &done = encoded[size_t(step.activation)];
    if (readsA8 && !done) {
      all.push_back({moek::OpCode::Quantize, {}, step.activation});
      done = true;
    }
    all.push_back(step);
  }
  return all;
}

//===----------------------------------------------------------------------===//
// Reading a selection back
//===----------------------------------------------------------------------===//

namespace {
/// The table entries that an attribute of `op` names.
template <typename Info>
FailureOr<SmallVector<const Info *>>
lookUp(Operation *op, StringRef attribute,
       const Info *(*find)(std::string_view)) {
  auto names = op->getAttrOfType<ArrayAttr>(attribute);
  if (!names)
    return op->emitError() << "has no " << attribute
                           << "; run moe-select-kernels first";
  SmallVector<const Info *> found;
  for (Attribute entry : names) {
    auto name = dyn_cast<StringAttr>(entry);
    const Info *info = name ? find(std::string_view(name.getValue())) : nullptr;
    if (!info)
      return op->emitError() << attribute << " names " << entry
                             << ", which is not in the kernel table";
    found.push_back(info);
  }
  return found;
}
} // namespace

moek::Layout SelectedStep::layoutOf(Value weight) const {
  for (auto [own, gemm] : llvm::zip_equal(step.gemmWeights, gemms))
    if (own == weight)
      return gemm->layout;
  return moek::Layout::Gguf;
}

FailureOr<SmallVector<SelectedStep>>
moe::selectedSteps(Operation *op, int64_t tokens, int64_t cached) {
  auto lowerable = dyn_cast<LowerableOpInterface>(op);
  if (!lowerable)
    return op->emitError("lowers to no instruction");
  auto kernels = lookUp(op, kKernelsAttr, &moek::findKernel);
  auto gemms = lookUp(op, kGemmsAttr, &moek::findGemm);
  if (failed(kernels) || failed(gemms))
    return failure();

  SmallVector<PlanStep> steps = lowerable.getPlanSteps();
  size_t weights = 0;
  for (const PlanStep &step : steps)
    weights += step.gemmWeights.size();
  if (gemms->size() != weights)
    return op->emitError() << kGemmsAttr << " has " << gemms->size()
                           << " names for " << weights << " weights";
  steps = withQuantize(steps, *gemms);
  if (kernels->size() != steps.size())
    return op->emitError() << kKernelsAttr << " has " << kernels->size()
                           << " names for " << steps.size() << " instructions";

  SmallVector<SelectedStep> selected;
  ArrayRef<const GemmInfo *> rest = *gemms;
  SmallVector<StepWork> works;
  if (auto costed = dyn_cast<CostOpInterface>(op))
    works = costed.getWork(tokens, cached);
  const StepWork *work = works.begin();
  for (auto [step, driver] : llvm::zip_equal(steps, *kernels)) {
    if (driver->op != step.op)
      return op->emitError() << kKernelsAttr << " names " << toRef(driver->name)
                             << " for another instruction";
    auto own = rest.take_front(step.gemmWeights.size());
    rest = rest.drop_front(own.size());
    if (!own.empty() && llvm::any_of(own, [&](const GemmInfo *gemm) {
          return !shareActivation(*gemm, *own.front());
        }))
      return op->emitError() << "gemms of " << toRef(driver->name)
                             << " read different encodings";
    selected.push_back({step, driver, {own.begin(), own.end()}});
    // withQuantize() added instructions that the op knows nothing of.
    if (step.op != moek::OpCode::Quantize && work != works.end())
      selected.back().work = *work++;
  }
  return selected;
}
