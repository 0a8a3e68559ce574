#include "kernels/Registry.h"

#include <ranges>

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

constexpr IsaInfo isas[] = {
#define MOE_INSTRUCTION_SET(id, name, base, bytes, panels, ...)                \
  {#name, Isa::id, Isa::base, bytes, Layout::panels},
#include "kernels/Isas.def"
};

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

std::span<const IsaInfo> isaTable() { return isas; }

std::string_view isaName(Isa isa) { return isas[size_t(isa)].name; }

std::optional<Isa> isaFromName(std::string_view name) {
  const IsaInfo *info = findByName(isas, name);
  return info ? std::optional(info->isa) : std::nullopt;
}

std::string cpuIsaNames() {
  std::string names;
  for (const IsaInfo &info : isas) {
    if (info.isa == Isa::Cuda)
      continue;
    if (!names.empty())
      names += size_t(info.isa) + 1 == size_t(Isa::Cuda) ? " or " : ", ";
    names += info.name;
  }
  return names;
}

bool runsOn(Isa kernel, Isa device) {
  for (Isa base = isas[size_t(device)].base; device != kernel;
       base = isas[size_t(device)].base) {
    if (base == device)
      return false;
    device = base;
  }
  return true;
}

Isa bestHostIsa() {
  for (const IsaInfo &info : isas | std::views::reverse)
    if (hostSupports(info.isa))
      return info.isa;
  return Isa::Ref;
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
