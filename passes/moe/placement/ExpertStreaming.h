//===- ExpertStreaming.h - Cost of streaming experts ------------*- C++ -*-===//
//
// A step of many tokens does many multiplications per expert. From some step
// length on, copying the experts' matrices over the link and multiplying on the
// GPU takes less time than multiplying on the CPU. That length is where two
// estimates for all such layers cross: the CPU's time plus the copies of
// activations to it and back, and the time of link and GPU, which overlap
// except for one part.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_PLACEMENT_EXPERTSTREAMING_H
#define MOE_PASSES_MOE_PLACEMENT_EXPERTSTREAMING_H

#include "dialects/moe/WeightTable.h"
#include "passes/moe/Support.h"

namespace mlir::moe {

/// The experts of a phase that can be streamed: they are on the host, and the
/// GPU of their layer's router has kernels for them and reads their weights in
/// the host's layout.
class ExpertStreaming {
public:
  /// Returns the device of an op, or null.
  using DeviceOf = function_ref<const moec::DeviceDesc *(Operation *)>;

  struct Candidate {
    ExpertsOp op;
    const moec::DeviceDesc *host, *gpu;
  };

  /// With `mayPack`, weights may have another layout than the file's.
  ExpertStreaming(func::FuncOp prefill, DeviceOf deviceOf, bool mayPack);
  /// Takes the devices from the ops' kDeviceAttr.
  ExpertStreaming(func::FuncOp prefill, const moec::TargetDesc &target,
                  bool mayPack);

  bool empty() const { return candidates.empty(); }
  ArrayRef<Candidate> all() const { return candidates; }
  /// Says why the first experts on the CPU that cannot be streamed cannot; ""
  /// if all of the CPU's experts can be streamed, or the CPU has none.
  const std::string &obstacle() const { return firstObstacle; }

  /// Returns the shortest step that takes no longer with streamed experts, or 0
  /// if there is none.
  int64_t crossover() const;

  /// Seconds of all layers' experts in a step of `rows` tokens.
  struct Seconds {
    double host = 0; ///< On the host, with the copies to it and back.
    /// Copying weights, multiplying on the GPU, and both overlapped.
    double link = 0, gpu = 0, streamed = 0;
  };
  Seconds secondsOf(int64_t rows) const;

  /// Returns the bytes of both slots that a layer's experts need.
  static int64_t slotBytes(ExpertsOp op);
  /// Returns the bytes of the slots for all layers, which use them in turn.
  int64_t slotBytes() const;
  /// Returns the bytes of a layer's experts that stay on the GPU: biases and
  /// scales.
  static int64_t keptBytes(ExpertsOp op);
  /// Returns the bytes that `gpu` needs to stream all experts of the phase that
  /// it can run, assuming that all are on `host`: slots, biases and scales.
  static int64_t mostBytes(func::FuncOp prefill, const moec::DeviceDesc &host,
                           const moec::DeviceDesc &gpu);

private:
  bool pays(int64_t rows) const;
  /// Adds the op, which is on the CPU `host`, to the candidates, or says why it
  /// is none.
  std::string addCandidate(ExpertsOp op, const WeightTable &weights,
                           const moec::DeviceDesc &host,
                           const moec::DeviceDesc *ofRouter);

  func::FuncOp prefill;
  PhaseAttr phase;
  bool mayPack;
  SmallVector<Candidate> candidates;
  std::string firstObstacle;
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PLACEMENT_EXPERTSTREAMING_H
