#include "passes/moe/kernels/KernelSelection.h"

#include "compiler/Machine/CostModel/CostModel.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::moe;
using moek::GemmInfo;
using moek::Isa;
using moek::KernelInfo;

/// Returns whether `gemm` handles steps of up to `maxTokens` tokens.
static bool isFor(const GemmInfo &gemm, int64_t maxTokens) {
  return gemm.minTokens <= maxTokens && maxTokens <= gemm.maxTokens;
}

moek::Encoding moe::encodingOn(Isa isa, int64_t maxTokens) {
  bool coarse = llvm::any_of(moek::gemmTable(), [&](const GemmInfo &gemm) {
    return gemm.activation == moek::Encoding::A8K && runsOn(gemm.isa, isa) &&
           isFor(gemm, maxTokens);
  });
  return coarse ? moek::Encoding::A8K : moek::Encoding::A8;
}

const KernelInfo *moe::chooseKernel(moek::OpCode op, Isa isa) {
  const KernelInfo *best = nullptr;
  for (const KernelInfo &info : moek::kernelTable())
    if (info.op == op && runsOn(info.isa, isa) &&
        (!best || info.isa > best->isa))
      best = &info;
  return best;
}

bool moe::encodesForGemms(Isa isa) { return isa != Isa::Cuda; }

bool moe::gateUpNeedsOneFormat(Isa isa) { return isa == Isa::Cuda; }

bool moe::clearlySlower(const GemmInfo &a, const GemmInfo &b, int64_t rows,
                        const moec::DeviceDesc &device) {
  auto seconds = [&](const GemmInfo &gemm) {
    return moec::measuredSecondsPerByte(gemm, double(rows), /*cached=*/false,
                                        device);
  };
  auto ofA = seconds(a), ofB = seconds(b);
  return ofA && ofB && *ofA > 1.1 * *ofB;
}

const GemmInfo *moe::chooseGemm(moek::Format format, moek::Layout layout,
                                const moec::DeviceDesc &device,
                                int64_t maxTokens) {
  const GemmInfo *best = nullptr;
  auto better = [&](const GemmInfo &info) {
    return !best || (info.isa > best->isa
                         ? !clearlySlower(info, *best, maxTokens, device)
                         : clearlySlower(*best, info, maxTokens, device));
  };
  for (const GemmInfo &info : moek::gemmTable())
    if (info.format == format && info.layout == layout &&
        runsOn(info.isa, device.isa) && isFor(info, maxTokens) && better(info))
      best = &info;
  return best;
}

SmallVector<std::pair<const GemmInfo *, std::string>>
moe::rejectedGemms(const GemmInfo &chosen, const moec::DeviceDesc &device,
                   int64_t maxTokens) {
  // The reference kernel is only a fallback for formats without another gemm.
  auto isAlternative = [&](const GemmInfo &info) {
    return &info != &chosen && info.isa != Isa::Ref &&
           info.format == chosen.format && info.layout == chosen.layout &&
           runsOn(info.isa, device.isa) && isFor(info, maxTokens);
  };
  auto why = [&](const GemmInfo &info) -> std::string {
    if (clearlySlower(info, chosen, maxTokens, device))
      return "measured to be slower";
    if (info.isa == chosen.isa)
      return "not measured to be faster";
    return "made for " + std::string(moek::isaName(info.isa)) +
           ", and not measured to be faster than the kernel for " +
           std::string(moek::isaName(chosen.isa));
  };
  SmallVector<std::pair<const GemmInfo *, std::string>> rejected;
  for (const GemmInfo &info : moek::gemmTable())
    if (isAlternative(info))
      rejected.emplace_back(&info, why(info));
  return rejected;
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
