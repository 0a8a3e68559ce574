//===- WeightLayouts.h - One layout per weight and device -------*- C++ -*-===//
//
// Used by moe-select-kernels. A weight is stored once per device, so that all
// gemms that read it there, in whatever phase, must take the same layout. What
// reads it without a gemm (moe.embedding, attention) takes the model file's
// rows, as an entry of its own in the plan.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_KERNELS_WEIGHTLAYOUTS_H
#define MOE_PASSES_MOE_KERNELS_WEIGHTLAYOUTS_H

#include "passes/moe/Support.h"
#include "passes/moe/kernels/KernelSelection.h"

namespace mlir::moe {

class WeightLayouts {
public:
  /// Without `mayPack` the host's weights keep the model file's layout, and
  /// those that are streamed from there.
  explicit WeightLayouts(bool mayPack) : mayPack_(mayPack) {}

  /// Notes that a gemm of `instruction` on `device` reads `weight` in `phase`.
  void addUse(Value weight, const Instruction &instruction, PhaseAttr phase,
              const moec::DeviceDesc &device);

  /// Notes that an op on `device` reads `weight`, with a gemm or without.
  void addReader(Value weight, const moec::DeviceDesc &device);

  /// Notes that `device` brings `weight` from a CPU that has it: in the layout
  /// that this one's gemms read.
  void addStreamed(Value weight, const moec::DeviceDesc &device);

  struct Choice {
    moek::Layout layout = moek::Layout::Gguf;
    /// Follows "weights": "packed as rows16". Empty where the device has gemms
    /// for no layout but the model file's.
    std::string reason;
    /// The other layouts for this format and number of columns, each with the
    /// reason against it.
    SmallVector<std::pair<moek::Layout, std::string>, 2> rejected = {};
  };

  /// Returns the layout that the noted gemms read best. It is the first layout
  /// after the model file's that meets these conditions, else the file's:
  ///   * no other device reads the same bytes, as a GPU that shares the host's
  ///     memory does;
  ///   * the weight's format and number of columns support it, with at most an
  ///     eighth more bytes for padded panels;
  ///   * each gemm exists for it, with no lesser instruction set than for the
  ///     file's rows, and reads activations in the same encoding, or in one
  ///     that is an internal matter of its op's kernel (moe-fuse relies on
  ///     that).
  Choice choose(Value weight, const moec::DeviceDesc &device) const;

private:
  using Key = std::pair<StringAttr, const moec::DeviceDesc *>;

  struct Uses {
    /// The most tokens of each phase that reads the weight.
    SmallVector<int64_t, 4> tokens;
    bool ofFloats = false; ///< Whether a kernel takes only floats.
  };

  bool mayPack_;
  llvm::DenseMap<Key, Uses> uses_;
  llvm::DenseSet<Key> streamed_;
  /// Readers of each weight: 1 if a CPU reads it, 2 if a GPU does that shares
  /// its memory.
  llvm::DenseMap<StringAttr, int> readers_;
  /// The CPU that reads a weight.
  llvm::DenseMap<StringAttr, const moec::DeviceDesc *> hosts_;
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_KERNELS_WEIGHTLAYOUTS_H
