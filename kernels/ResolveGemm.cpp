//===- ResolveGemm.cpp - Finds a gemm function by its name ----------------===//

#include "kernels/GemmFns.h"
#include "kernels/KernelFormats.h"
#include "kernels/Registry.h"

namespace moek {

namespace {
struct Entry {
  std::string_view name;
  GemmFn function;
};

#define MOE_CODE_Ref(name) {#name, &name},
#if defined(__x86_64__)
#define MOE_CODE_Avx2(name) MOE_CODE_Ref(name)
#define MOE_CODE_AvxVnni(name) MOE_CODE_Ref(name)
#define MOE_CODE_Avx512(name) MOE_CODE_Ref(name)
#define MOE_CODE_Amx(name) MOE_CODE_Ref(name)
#else
#define MOE_CODE_Avx2(name)
#define MOE_CODE_AvxVnni(name)
#define MOE_CODE_Avx512(name)
#define MOE_CODE_Amx(name)
#endif
#if defined(__aarch64__)
#define MOE_CODE_Neon(name) MOE_CODE_Ref(name)
#define MOE_CODE_NeonI8mm(name) MOE_CODE_Ref(name)
#else
#define MOE_CODE_Neon(name)
#define MOE_CODE_NeonI8mm(name)
#endif

constexpr Entry entries[] = {
#define MOE_GEMM(name, format, encoding, layout, isa, min, max, panel)         \
  MOE_BUILT_##format(MOE_CODE_##isa(name))
#include "kernels/Gemms.def"
};
} // namespace

GemmFn resolveGemm(std::string_view name) {
  for (const Entry &entry : entries)
    if (entry.name == name)
      return entry.function;
  return nullptr;
}

} // namespace moek
