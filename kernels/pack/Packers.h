//===- Packers.h - Packers of one instruction set each ----------*- C++ -*-===//

#ifndef MOE_KERNELS_PACK_PACKERS_H
#define MOE_KERNELS_PACK_PACKERS_H

#include "kernels/Registry.h"
#include "kernels/quant/Format.h"

#include <cstdint>

namespace moek {

/// packRows16() (kernels/quant/Rows16.h) of one instruction set: Ref, Avx2 or
/// Avx512, which this CPU must have (hostSupports()). All write the same bytes.
using PackPanelFn = bool(Format format, const uint8_t *rows, int64_t rowStride,
                         int count, int64_t cols, uint8_t *out);
/// Returns null if this build has none.
PackPanelFn *packerOf(Isa isa);

namespace ref {
PackPanelFn packPanel;
}
namespace avx2 {
PackPanelFn packPanel;
}
namespace avx512 {
PackPanelFn packPanel;
}

} // namespace moek

#endif // MOE_KERNELS_PACK_PACKERS_H
