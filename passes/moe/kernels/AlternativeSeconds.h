//===- AlternativeSeconds.h - Seconds of rejected alternatives --*- C++ -*-===//

#ifndef MOE_PASSES_MOE_KERNELS_ALTERNATIVESECONDS_H
#define MOE_PASSES_MOE_KERNELS_ALTERNATIVESECONDS_H

#include "passes/moe/kernels/OpSeconds.h"

#include <map>
#include <string>

namespace mlir::moe {

/// An alternative that was not chosen for an op; an entry of kRejectedAttr.
struct Rejection {
  Alternative kind;
  /// The weight that the choice is about; "" for the whole op.
  std::string name;
  StringRef of = {};  ///< The weight that it is about; "" for the whole op.
  double seconds;     ///< Negative if the alternative cannot run the op.
  std::string chosen; ///< What was chosen instead.
  double chosenSeconds;
  std::string reason;
};
void reject(Operation *op, const Rejection &rejection);

/// Predicts the seconds of ops in the typical steps of their phases.
class AlternativeSeconds {
public:
  /// For `mayPack`, see opSeconds().
  explicit AlternativeSeconds(bool mayPack) : mayPack(mayPack) {}

  const moec::Situation &situationOf(Operation *op,
                                     const moec::DeviceDesc &device);

  /// Records that `op` is on `chosen` and not on `device`, with the reason.
  void rejectDevice(Operation *op, const moec::DeviceDesc &device,
                    const moec::DeviceDesc &chosen, const std::string &reason);

private:
  double of(Operation *op, const moec::DeviceDesc &device);

  bool mayPack;
  std::map<std::pair<Operation *, const moec::DeviceDesc *>, moec::Situation>
      situations;
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_KERNELS_ALTERNATIVESECONDS_H
