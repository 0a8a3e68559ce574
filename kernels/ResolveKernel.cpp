//===- ResolveKernel.cpp - Finds an op's CPU kernel by its name -----------===//

#include "kernels/OpKernels.h"
#include "kernels/Registry.h"

#include <type_traits>

namespace moek {

namespace {
/// Erases the argument type of a kernel. That the type belongs to the op is
/// checked here, once and at compile time; callers build the arguments by the
/// op.
template <OpCode Op, auto OpKernel>
void erased(const void *args, const Step &step, const Worker &worker) {
  using Args = ArgsOf<Op>;
  static_assert(
      std::is_same_v<decltype(OpKernel),
                     void (*)(const Args &, const Step &, const Worker &)>);
  OpKernel(*static_cast<const Args *>(args), step, worker);
}

struct Entry {
  std::string_view name;
  KernelFn function;
};

#define MOE_CODE_Ref(name, op) {#name, erased<OpCode::op, &name>},
#if defined(__x86_64__)
#define MOE_CODE_Avx2(name, op) MOE_CODE_Ref(name, op)
#define MOE_CODE_Avx512(name, op) MOE_CODE_Ref(name, op)
#else
#define MOE_CODE_Avx2(name, op)
#define MOE_CODE_Avx512(name, op)
#endif
#if defined(__aarch64__)
#define MOE_CODE_Neon(name, op) MOE_CODE_Ref(name, op)
#else
#define MOE_CODE_Neon(name, op)
#endif

constexpr Entry entries[] = {
#define MOE_KERNEL(name, op, isa) MOE_CODE_##isa(name, op)
#include "kernels/Kernels.def"
};
} // namespace

KernelFn resolveKernel(std::string_view name) {
  for (const Entry &entry : entries)
    if (entry.name == name)
      return entry.function;
  return nullptr;
}

} // namespace moek
