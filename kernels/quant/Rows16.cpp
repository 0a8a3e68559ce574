//===- Rows16.cpp - Chooses the packer for this CPU -----------------------===//

#include "kernels/quant/Rows16.h"

#include "kernels/pack/Packers.h"

#include <ranges>

namespace moek {

PackPanelFn *packerOf(Isa isa) {
  switch (isa) {
  case Isa::Ref:
    return ref::packPanel;
#ifdef MOE_X86_PACKERS
  case Isa::Avx2:
    return avx2::packPanel;
  case Isa::Avx512:
    return avx512::packPanel;
#endif
  default:
    return nullptr;
  }
}

bool packRows16(Format format, const uint8_t *rows, int64_t rowStride,
                int64_t count, int64_t cols, uint8_t *out) {
  static PackPanelFn *const pack = [] {
    for (const IsaInfo &info : isaTable() | std::views::reverse)
      if (PackPanelFn *packer = packerOf(info.isa);
          packer && vectorRefusal(info.isa).empty())
        return packer;
    return packerOf(Isa::Ref);
  }();
  return pack(format, rows, rowStride, int(count), cols, out);
}

} // namespace moek
