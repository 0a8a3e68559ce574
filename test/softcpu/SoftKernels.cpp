//===- SoftKernels.cpp - Runs kernels on the software CPU -----------------===//
//
// Linked into a test with --wrap of these functions (see CMakeLists.txt), this
// lets kernels run whose ISA the CPU lacks: looking up such a kernel returns a
// function that passes the call to SoftCpu.
//
//===----------------------------------------------------------------------===//

#include "kernels/Registry.h"
#include "test/softcpu/SoftCpu.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

#define MOE_WRAPPED(name) __asm__("__wrap_" name)
#define MOE_REAL(name) __asm__("__real_" name)
#define MOE_RESOLVE_KERNEL                                                     \
  "_ZN4moek13resolveKernelESt17basic_string_viewIcSt11char_traitsIcEE"
#define MOE_RESOLVE_GEMM                                                       \
  "_ZN4moek11resolveGemmESt17basic_string_viewIcSt11char_traitsIcEE"
#define MOE_HOST_REFUSAL "_ZN4moek11hostRefusalENS_3IsaE"

namespace moek::test {

KernelFn realResolveKernel(std::string_view name) MOE_REAL(MOE_RESOLVE_KERNEL);
GemmFn realResolveGemm(std::string_view name) MOE_REAL(MOE_RESOLVE_GEMM);
std::string_view realHostRefusal(Isa isa) MOE_REAL(MOE_HOST_REFUSAL);
KernelFn softResolveKernel(std::string_view name)
    MOE_WRAPPED(MOE_RESOLVE_KERNEL);
GemmFn softResolveGemm(std::string_view name) MOE_WRAPPED(MOE_RESOLVE_GEMM);
std::string_view softHostRefusal(Isa isa) MOE_WRAPPED(MOE_HOST_REFUSAL);

namespace {
/// Functions of type `Function` that call the functions bound to them in
/// software.
template <class Function> class Bindings;
template <class... Args> class Bindings<void (*)(Args...)> {
public:
  using Function = void (*)(Args...);

  /// Returns the function that calls `target`; always the same one for a
  /// target.
  static Function bind(Function target) {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < kCount; ++i) {
      if (targets_[i] == target)
        return callers_[i];
      if (targets_[i])
        continue;
      targets_[i] = target;
      // Kernels that run in software call other kernels through these
      // functions, too.
      SoftCpu::redirect(reinterpret_cast<uint64_t>(callers_[i]),
                        reinterpret_cast<uint64_t>(target));
      return callers_[i];
    }
    std::fprintf(stderr, "\nsoftware CPU: more than %zu kernels\n", kCount);
    std::abort();
  }

private:
  static constexpr size_t kCount = 512;

  template <size_t I> static void caller(Args... args) {
    SoftCpu::call<Args...>(targets_[I], args...);
  }
  template <size_t... I>
  static constexpr std::array<Function, kCount>
  makeCallers(std::index_sequence<I...>) {
    return {&caller<I>...};
  }

  static inline std::mutex mutex_;
  static inline std::array<Function, kCount> targets_{};
  static constexpr std::array<Function, kCount> callers_ =
      makeCallers(std::make_index_sequence<kCount>());
};

/// Whether kernels of `isa` can run here, but only in software: tiles are
/// another executor's matter.
bool isSoft(Isa isa) {
  if (isa == Isa::Amx)
    isa = Isa::Avx512;
  return (isa == Isa::AvxVnni || isa == Isa::Avx512) &&
         !realHostRefusal(isa).empty() && SoftCpu::isAvailable();
}
} // namespace

std::string_view softHostRefusal(Isa isa) {
  return limitRefusal(isa).empty() && isSoft(isa) ? std::string_view()
                                                  : realHostRefusal(isa);
}

KernelFn softResolveKernel(std::string_view name) {
  KernelFn function = realResolveKernel(name);
  const KernelInfo *info = findKernel(name);
  return function && info && isSoft(info->isa)
             ? Bindings<KernelFn>::bind(function)
             : function;
}

GemmFn softResolveGemm(std::string_view name) {
  GemmFn function = realResolveGemm(name);
  const GemmInfo *info = findGemm(name);
  return function && info && isSoft(info->isa)
             ? Bindings<GemmFn>::bind(function)
             : function;
}

} // namespace moek::test
