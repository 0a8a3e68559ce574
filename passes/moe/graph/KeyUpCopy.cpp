#include "passes/moe/graph/KeyUpCopy.h"

#include "passes/moe/Support.h"
#include "passes/moe/kernels/KernelSelection.h"

using namespace mlir;
using namespace mlir::moe;

static std::string toString(std::string_view view) { return std::string(view); }

/// Formats bytes and format of a weight: "1.1 MB as Q8_0".
static std::string describe(RankedTensorType type) {
  moek::Format format = *getFormat(type.getElementType());
  return formatTraffic(getTensorBytes(type)) + " as " +
         toString(moek::formatInfo(format).name);
}

KeyUpCopy moe::chooseKeyUpCopy(MlaAttentionOp op,
                               const moec::DeviceDesc &device,
                               WeightsMode weights) {
  // GPU kernels read W_UK untransposed, in any format.
  if (op.getKTransposed() || !readsPackedRows(device.isa) ||
      !encodesForGemms(device.isa))
    return {};
  auto keep = [](const std::string &why) {
    return KeyUpCopy{nullptr, "W_UK is read as floats: " + why + "."};
  };
  if (weights == WeightsMode::Reference)
    return keep("weights=reference forbids a transposed copy");
  auto type = cast<RankedTensorType>(op.getWk().getType());
  Type element = type.getElementType();
  // The blocks of a column are not those of the file. 8-bit quantisation steps
  // are far below those of most quantised weights and no coarser than any.
  if (isa<QuantTypeInterface>(element))
    element = Q8_0Type::get(op.getContext());
  moek::Format format = *getFormat(element);
  moek::FormatInfo info = moek::formatInfo(format);
  int64_t nope = op.getNope();
  if (nope % info.blockElements != 0)
    return keep("columns of " + std::to_string(nope) +
                " elements are not whole blocks of " + toString(info.name));
  if (!readsPackedRows(device.isa, format, nope))
    return keep(toString(info.name) + " has no gemm on packed rows for " +
                toString(moek::isaName(device.isa)));
  auto copy = RankedTensorType::get(
      {type.getDimSize(0), type.getDimSize(2), nope}, element);
  return {copy, "W_UK is transposed when weights are packed, to " +
                    describe(copy) + " from " + describe(type) +
                    ": a gemm reads it, and no step makes floats of it."};
}
