#include "compiler/Explain/GpuCode.h"

#include "kernels/cuda/Limits.h"
#include "runtime/plan/PlanAccess.h"

#include <algorithm>
#include <map>

using moert::count;
using moert::text;
namespace fb = moert::fb;

namespace moec {

/// What a GPU of `arch` loads: the newest code that is not newer than itself.
static const fb::Image *imageFor(const fb::Module &module, int arch) {
  const fb::Image *best = nullptr;
  for (uint32_t i = 0; i < count(module.images()); ++i)
    if (const fb::Image *image = module.images()->Get(i);
        image->arch() <= arch && (!best || image->arch() > best->arch()))
      best = image;
  return best;
}

static void addLaunch(KernelUse &use, const fb::Launch &launch) {
  uint64_t shared = launch.shared_bytes();
  if (use.image)
    shared += uint64_t(use.image->shared_bytes());
  int warps = moek::cuda::residentWarps(use.arch, int(launch.threads()),
                                        use.image ? use.image->registers() : 0,
                                        int64_t(shared));
  use.warps = use.launches == 0 ? warps : std::min(use.warps, warps);
  use.threads = std::max(use.threads, launch.threads());
  use.shared = std::max(use.shared, shared);
  ++use.launches;
}

GpuCode::GpuCode(const fb::Plan &plan) : nvrtc(text(plan.nvrtc())) {
  for (uint32_t m = 0; m < count(plan.modules()); ++m) {
    const fb::Module &module = *plan.modules()->Get(m);
    for (uint32_t i = 0; i < count(module.images()); ++i) {
      const fb::Image &image = *module.images()->Get(i);
      bytes += count(image.cubin()) + text(image.ptx()).size();
      archs.push_back(image.arch());
    }
  }
  std::ranges::sort(archs);
  archs.erase(std::ranges::unique(archs).begin(), archs.end());

  std::map<std::pair<uint32_t, uint32_t>, size_t> known; // device, module
  for (uint32_t p = 0; p < count(plan.phases()); ++p) {
    const fb::Phase &phase = *plan.phases()->Get(p);
    uint64_t ofPhase = 0;
    for (uint32_t i = 0; i < count(phase.instructions()); ++i) {
      const fb::Instruction &instruction = *phase.instructions()->Get(i);
      for (uint32_t l = 0; l < count(instruction.launches()); ++l) {
        const fb::Launch &launch = *instruction.launches()->Get(l);
        uint32_t number = moert::deviceOf(plan, instruction);
        auto [use, isNew] =
            known.try_emplace({number, launch.module_()}, kernels.size());
        if (isNew) {
          const fb::Module &module = *plan.modules()->Get(launch.module_());
          const fb::Device &device = *plan.devices()->Get(number);
          KernelUse &added = kernels.emplace_back();
          added.module = &module;
          added.image = imageFor(module, device.arch());
          added.device = text(device.name());
          added.arch = device.arch();
          added.mostWarps = moek::cuda::multiprocessorOf(device.arch()).warps;
        }
        addLaunch(kernels[use->second], launch);
        ++ofPhase;
      }
    }
    if (ofPhase > 0)
      launches.emplace_back(text(phase.name()), ofPhase);
  }
}

} // namespace moec
