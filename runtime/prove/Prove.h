//===- Prove.h - That instructions fit what kernels assume ------*- C++ -*-===//
//
// Proves of each instruction of a phase that its operands' shapes, formats,
// layouts and encodings, and its parameters, are what kernels of its op and the
// gemms that it names assume. With verifyDataflow() it follows that no step of
// min_tokens to max_tokens tokens at positions within the context can make a
// kernel touch memory outside its operands. It holds on every kind of device:
// which of the kernels are there, and what memory they need beside their
// operands, is the device's to say when it binds the phase.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_PROVE_PROVE_H
#define MOE_RUNTIME_PROVE_PROVE_H

#include "runtime/plan/Plan.h"
#include "runtime/plan/WeightFiles.h"
#include "runtime/prove/ProvenOp.h"

#include <vector>

namespace moert {

/// Of all phases of `plan`, in its order, and that their data flow is right
/// (verifyDataflow). `plan` outlives the result.
StatusOr<std::vector<ProvenPhase>> provePlan(const Plan &plan,
                                             const WeightFiles &files);

/// Of a phase of `plan`, which outlives the result. InvalidFile, naming phase,
/// instruction and operand, where it does not hold, or where a norm or a bias
/// in `files` is not finite.
StatusOr<ProvenPhase> provePhase(const Plan &plan, const fb::Phase &phase,
                                 const WeightFiles &files);

/// "plan.fb: phase decode, instruction 3 (linear)": where a failure is.
std::string placeOf(const Plan &plan, const fb::Phase &phase, uint32_t index);

} // namespace moert

#endif // MOE_RUNTIME_PROVE_PROVE_H
