#include "runtime/device/cuda/CudaModules.h"

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
    return {{cubin->cubin()->begin(), cubin->cubin()->end()}, false};
  return {ptx ? std::string(text(ptx->ptx())) : "", true};
}

StatusOr<CudaModules> CudaModules::load(const CudaDriver &driver,
                                        const CudaGpu &gpu, const Plan &plan,
                                        uint32_t device) {
  const fb::Plan &table = plan.table();
  const cu::Api &api = driver.api();
  CudaModules result;
  result.functions_.resize(count(table.modules()));
  for (uint32_t number : modulesOf(table, device)) {
    const fb::Module &module = *table.modules()->Get(number);
    std::string entry(text(module.entry()));
    CudaImage image = imageFor(module, gpu.arch);
    if (image.bytes.empty())
      return Status(StatusCode::WrongMachine,
                    fmt::format("{}: kernel {} is compiled for {}, and {} is "
                                "sm_{}",
                                plan.path(), entry, archesOf(module), gpu.name,
                                gpu.arch))
          .suggesting(recompile(Suggestion::ForThisGpu, table, plan.path(),
                                {{"--gpu-arch", std::to_string(gpu.arch)}}));
    cu::Module handle = nullptr;
    cu::Result loaded = api.cuModuleLoadData(&handle, image.bytes.data());
    if (loaded == cu::kUnsupportedPtxVersion ||
        (loaded == cu::kInvalidPtx && image.isPtx) ||
        loaded == cu::kNoBinaryForGpu) {
      int version = 0;
      (void)api.cuDriverGetVersion(&version);
      return Status(
          StatusCode::WrongMachine,
          fmt::format(
              "{}: the driver of {} (for CUDA {}) does not accept kernel "
              "{} as NVRTC {} compiled it; update the driver, or "
              "compile with an older one: --nvrtc PATH",
              plan.path(), gpu.name, versionText(version), entry,
              text(table.nvrtc())));
    }
    MOE_RETURN_IF_ERROR(driver.check(
        loaded, fmt::format("{}: loading kernel {}", plan.path(), entry)));
    result.modules_.emplace_back(handle, api.cuModuleUnload);
    MOE_RETURN_IF_ERROR(driver.check(
        api.cuModuleGetFunction(&result.functions_[number], handle,
                                entry.c_str()),
        fmt::format("{}: looking for kernel {}", plan.path(), entry)));
  }
  return result;
}

} // namespace moert
