#include "runtime/device/cuda/CudaModules.h"

#include "runtime/base/ParallelPieces.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/Recompile.h"

#include <set>

namespace moert {

namespace {
constexpr int generationOf(int arch) { return arch / 10; }

/// Returns the module's architectures, such as "sm_80, sm_89".
std::string archesOf(const fb::Module &module) {
  std::string names;
  for (uint32_t i = 0; i < count(module.images()); ++i)
    names +=
        fmt::format("{}sm_{}", i ? ", " : "", module.images()->Get(i)->arch());
  return names.empty() ? "no GPU" : names;
}

/// Returns the modules that instructions of `device` launch.
std::set<uint32_t> modulesOf(const fb::Plan &plan, uint32_t device) {
  std::set<uint32_t> modules;
  for (const fb::Phase *phase : *plan.phases())
    for (uint32_t i = 0; i < count(phase->instructions()); ++i)
      if (const fb::Instruction &instruction = *phase->instructions()->Get(i);
          deviceOf(plan, instruction) == device)
        for (uint32_t k = 0; k < count(instruction.launches()); ++k)
          modules.insert(instruction.launches()->Get(k)->module_());
  return modules;
}

/// Formats a CUDA version as users write it: 13.0 for 13000.
std::string versionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}
} // namespace

/// Returns whether the driver has no use for an image: it is for another GPU or
/// by a newer compiler. Old drivers call a newer compiler's cubin invalid.
static bool isOther(cu::Result loaded, bool isPtx) {
  return loaded == cu::kUnsupportedPtxVersion ||
         loaded == cu::kNoBinaryForGpu || loaded == cu::kInvalidImage ||
         (loaded == cu::kInvalidPtx && isPtx);
}

CudaImage imageFor(const fb::Module &module, int arch) {
  const fb::Image *cubin = nullptr, *ptx = nullptr;
  for (uint32_t i = 0; i < count(module.images()); ++i) {
    const fb::Image *image = module.images()->Get(i);
    if (image->arch() > arch)
      continue;
    if (generationOf(image->arch()) == generationOf(arch) &&
        count(image->cubin()) && (!cubin || image->arch() > cubin->arch()))
      cubin = image;
    if (!text(image->ptx()).empty() && (!ptx || image->arch() > ptx->arch()))
      ptx = image;
  }
  // The images are copied: the driver needs aligned code, and PTX terminated by
  // NUL.
  if (cubin)
    return {
        {cubin->cubin()->begin(), cubin->cubin()->end()}, false, cubin->arch()};
  return {ptx ? std::string(text(ptx->ptx())) : "", true,
          ptx ? ptx->arch() : 0};
}

/// Loads the module's code for this GPU and finds its kernel.
static StatusOr<CudaOwned<cu::Module>>
loadModule(const CudaDriver &driver, const CudaGpu &gpu, const Plan &plan,
           const fb::Module &module, cu::Function &function) {
  const cu::Api &api = driver.api();
  std::string entry(text(module.entry()));
  CudaImage image = imageFor(module, gpu.arch);
  if (image.bytes.empty())
    return Status(StatusCode::WrongMachine,
                  fmt::format("{}: kernel {} is compiled for {}, and {} is "
                              "sm_{}",
                              plan.path(), entry, archesOf(module), gpu.name,
                              gpu.arch))
        .suggesting(recompile(Suggestion::ForThisGpu, plan.table(), plan.path(),
                              {{"--gpu-arch", std::to_string(gpu.arch)}}));
  cu::Module handle = nullptr;
  cu::Result loaded = api.cuModuleLoadData(&handle, image.bytes.data());
  if (isOther(loaded, image.isPtx)) {
    int version = 0;
    (void)api.cuDriverGetVersion(&version);
    return Status(
        StatusCode::WrongMachine,
        fmt::format("{}: the driver of {} (for CUDA {}) does not accept kernel "
                    "{} as NVRTC {} compiled it; update the driver, or "
                    "compile with an older one: --nvrtc PATH",
                    plan.path(), gpu.name, versionText(version), entry,
                    text(plan.table().nvrtc())));
  }
  MOE_RETURN_IF_ERROR(driver.check(
      loaded, fmt::format("{}: loading kernel {}", plan.path(), entry)));
  CudaOwned<cu::Module> owned(handle, api.cuModuleUnload);
  MOE_RETURN_IF_ERROR(driver.check(
      api.cuModuleGetFunction(&function, handle, entry.c_str()),
      fmt::format("{}: looking for kernel {}", plan.path(), entry)));
  return owned;
}

StatusOr<CudaModules> CudaModules::load(const CudaDriver &driver,
                                        const CudaContext &context,
                                        const CudaGpu &gpu, const Plan &plan,
                                        uint32_t device) {
  const fb::Plan &table = plan.table();
  CudaModules result;
  result.functions_.resize(count(table.modules()));
  result.archs_.resize(count(table.modules()));
  const std::set<uint32_t> wanted = modulesOf(table, device);
  const std::vector<uint32_t> numbers(wanted.begin(), wanted.end());
  result.modules_.resize(numbers.size());
  // A driver compiles PTX on the thread that loads it.
  auto makeTask = [&]() -> PieceTask {
    return [&](size_t index) -> StatusOr<uint64_t> {
      MOE_ASSIGN_OR_RETURN(CudaContext::Use use, context.use());
      MOE_ASSIGN_OR_RETURN(result.modules_[index],
                           loadModule(driver, gpu, plan,
                                      *table.modules()->Get(numbers[index]),
                                      result.functions_[numbers[index]]));
      result.archs_[numbers[index]] =
          imageFor(*table.modules()->Get(numbers[index]), gpu.arch).arch;
      return uint64_t(1);
    };
  };
  MOE_RETURN_IF_ERROR(
      forEachPiece(numbers.size(), numbers.size(), {}, makeTask));
  return result;
}

} // namespace moert
