#include "kernels/Registry.h"

namespace moek {

namespace {
constexpr KernelInfo kernels[] = {
#define MOE_KERNEL(name, op, isa) {#name, OpCode::op, Isa::isa},
#define MOE_CUDA_KERNEL(name, op) {#name, OpCode::op, Isa::Cuda},
#include "kernels/Kernels.def"
};

constexpr GemmInfo gemms[] = {
#define MOE_GEMM(name, format, encoding, layout, isa, min, max, panel)         \
  {#name, Format::format, Encoding::encoding, Layout::layout, Isa::isa, min,   \
   max,   panel},
#define MOE_CUDA_GEMM(name, format, encoding, layout)                          \
  {                                                                            \
      #name,          Format::format, Encoding::encoding,                      \
      Layout::layout, Isa::Cuda,      1,                                       \
      kAnyTokens,     kNever},
#include "kernels/Gemms.def"
};

constexpr std::string_view isaNames[] = {"ref", "avx2", "avx512", "amx",
                                         "cuda"};
constexpr std::string_view kvTypeNames[kKvTypeCount] = {"f32", "f16", "bf16",
                                                        "q8_0"};

/// Returns the enumerator whose index is that of `name` in `names`.
template <class Enum, size_t N>
std::optional<Enum> fromName(const std::string_view (&names)[N],
                             std::string_view name) {
  for (size_t i = 0; i < N; ++i)
    if (names[i] == name)
      return Enum(i);
  return std::nullopt;
}

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
  return fromName<Isa>(isaNames, name);
}

std::string_view kvTypeName(KvType type) { return kvTypeNames[size_t(type)]; }

std::optional<KvType> kvTypeFromName(std::string_view name) {
  return fromName<KvType>(kvTypeNames, name);
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
