//===- TypicalSeconds.h - What else an op could have taken ------*- C++ -*-===//

#ifndef MOE_PASSES_MOE_KERNELS_TYPICALSECONDS_H
#define MOE_PASSES_MOE_KERNELS_TYPICALSECONDS_H

#include "passes/moe/kernels/OpSeconds.h"

#include <map>
#include <string>

namespace mlir::moe {

/// In kRejectedAttr of an op.
struct Rejection {
  Alternative kind;
  std::string name;   ///< What was not taken.
  StringRef of = {};  ///< For which weight; "": for the op.
  double seconds;     ///< Below 0: it cannot be done by it.
  std::string chosen; ///< Instead.
  double chosenSeconds;
  std::string reason;
};
void reject(Operation *op, const Rejection &rejection);

/// Seconds of ops in the typical steps of their phases.
class TypicalSeconds {
public:
  /// `mayPack`: as opSeconds has it.
  explicit TypicalSeconds(bool mayPack) : mayPack(mayPack) {}

  const moec::Situation &situationOf(Operation *op,
                                     const moec::DeviceDesc &device);

  /// Notes that `op` is not on `device`, but on `chosen`.
  void rejectDevice(Operation *op, const moec::DeviceDesc &device,
                    const moec::DeviceDesc &chosen, const std::string &reason);

private:
  double of(Operation *op, const moec::DeviceDesc &device);

  bool mayPack;
  std::map<std::pair<Operation *, const moec::DeviceDesc *>, moec::Situation>
      situations;
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_KERNELS_TYPICALSECONDS_H
