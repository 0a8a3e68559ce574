//===- Sources.cpp - The kernels' sources as text -------------------------===//

#include "kernels/cuda/Launch.h"

namespace moek::cuda {

namespace {
constexpr Source texts[] = {
#include "Sources.inc"
};
} // namespace

std::span<const Source> sources() { return texts; }

} // namespace moek::cuda
