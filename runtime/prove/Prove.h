//===- Prove.h - Proofs that instructions are sound -------------*- C++ -*-===//
//
// Kernels do not check their operands. For each instruction of a phase, a proof
// shows that the shapes, formats, layouts and encodings of its operands, and
// its parameters, are what the kernels of its op and the gemms that it names
// rely on. With verifyDataflow() it follows that no step of min_tokens to
// max_tokens tokens at positions within the context can make a kernel touch
// memory outside its operands. This holds on every kind of device. A device
// that binds the phase checks whether it has the kernels, and the memory that
// they need besides their operands.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_PROVE_PROVE_H
#define MOE_RUNTIME_PROVE_PROVE_H

#include "runtime/plan/Plan.h"
#include "runtime/plan/WeightFiles.h"
#include "runtime/prove/ProvenOp.h"

#include <vector>

namespace moert {

/// Proves all phases of `plan`, in its order, and that their data flow is right
/// (verifyDataflow). `plan` outlives the result.
StatusOr<std::vector<ProvenPhase>> provePlan(const Plan &plan,
                                             const WeightFiles &files);

/// Proves a phase of `plan`, which outlives the result. Fails with InvalidFile,
/// naming phase, instruction and operand, if something does not hold, or if a
/// norm or a bias in `files` is not finite.
StatusOr<ProvenPhase> provePhase(const Plan &plan, const fb::Phase &phase,
                                 const WeightFiles &files);

/// Returns the place of a failure, such as "plan.fb: phase decode, instruction
/// 3 (linear)".
std::string placeOf(const Plan &plan, const fb::Phase &phase, uint32_t index);

} // namespace moert

#endif // MOE_RUNTIME_PROVE_PROVE_H
