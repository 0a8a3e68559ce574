//===- ExpertStreaming.h - What streaming experts would take ----*- C++ -*-===//
//
// A step of many tokens has much to multiply with each expert: from some length
// on it takes less time to bring experts' matrices over the link and let the
// GPU multiply than to let the CPU. That length is where the cost model's
// seconds of all such layers meet: of the CPU and the way there and back; of
// the link and the GPU, which overlap but for one part.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_PLACEMENT_EXPERTSTREAMING_H
#define MOE_PASSES_MOE_PLACEMENT_EXPERTSTREAMING_H

#include "passes/moe/Support.h"

namespace mlir::moe {

/// The experts of a phase that are on the host and that the GPU of their
/// layer's router reads as the host has them and has kernels for.
class ExpertStreaming {
public:
  /// The device of an op, or null.
  using DeviceOf = function_ref<const moec::DeviceDesc *(Operation *)>;

  struct Candidate {
    ExpertsOp op;
    const moec::DeviceDesc *host, *gpu;
  };

  /// `mayPack`: weights may have another layout than the file's.
  ExpertStreaming(func::FuncOp prefill, DeviceOf deviceOf, bool mayPack);
  /// By the ops' kDeviceAttr.
  ExpertStreaming(func::FuncOp prefill, const moec::TargetDesc &target,
                  bool mayPack);

  bool empty() const { return candidates.empty(); }
  ArrayRef<Candidate> all() const { return candidates; }

  /// The shortest step that takes no longer with experts streamed; 0: none.
  int64_t crossover() const;

  /// Seconds of all layers' experts in a step of so many rows.
  struct Seconds {
    double host = 0; ///< Where they are, and the way there and back.
    double link = 0, gpu = 0, streamed = 0;
  };
  Seconds secondsOf(int64_t rows) const;

  /// Bytes of both slots that the experts of a layer come to.
  static int64_t slotBytes(ExpertsOp op);
  /// Of all of them, one layer after the other.
  int64_t slotBytes() const;
  /// Bytes of what a GPU has of a layer's experts for good: biases and scales.
  static int64_t keptBytes(ExpertsOp op);
  /// What `gpu` needs for all experts of the phase that it could do if they
  /// were `host`'s: slots, and what it keeps.
  static int64_t mostBytes(func::FuncOp prefill, const moec::DeviceDesc &host,
                           const moec::DeviceDesc &gpu);

private:
  bool pays(int64_t rows) const;
  std::optional<Candidate> candidateOf(ExpertsOp op, DeviceOf deviceOf) const;

  func::FuncOp prefill;
  PhaseAttr phase;
  bool mayPack;
  SmallVector<Candidate> candidates;
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PLACEMENT_EXPERTSTREAMING_H
