#include "kernels/Registry.h"

namespace moek {

namespace {
constexpr KernelInfo kernels[] = {
#define MOE_KERNEL(name, op, isa) {#name, OpCode::op, Isa::isa},
#define MOE_CUDA_KERNEL(name, op) {#name, OpCode::op, Isa::Cuda},
#include "kernels/Kernels.def"
};

constexpr GemmInfo gemms[] = {
#define MOE_GEMM(name, format, encoding, layout, isa, min, max)                \
  {#name, Format::format, Encoding::encoding, Layout::layout, Isa::isa, min,   \
   max},
#define MOE_CUDA_GEMM(name, format, min, max)                                  \
  {#name, Format::format, Encoding::F32, Layout::Gguf, Isa::Cuda, min, max},
#include "kernels/Kernels.def"
};

constexpr std::string_view isaNames[] = {"ref", "avx2", "avx512", "amx",
                                         "cuda"};

template <class Info, size_t N>
const Info *findByName(const Info (&table)[N], std::string_view name) {
  for (const Info &info : table)
    if (info.name == name)
      return &info;
  return nullptr;
}
} // namespace

std::string_view isaName(Isa isa) { return isaNames[size_t(isa)]; }

std::optional<Isa> isaFromName(std::string_view name) {
  for (size_t i = 0; i < std::size(isaNames); ++i)
    if (isaNames[i] == name)
      return Isa(i);
  return std::nullopt;
}

std::span<const KernelInfo> kernelTable() { return kernels; }
std::span<const GemmInfo> gemmTable() { return gemms; }

const KernelInfo *findKernel(std::string_view name) {
  return findByName(kernels, name);
}
const GemmInfo *findGemm(std::string_view name) {
  return findByName(gemms, name);
}

} // namespace moek
