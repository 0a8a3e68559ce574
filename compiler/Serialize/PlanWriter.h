//===- PlanWriter.h - plan dialect to flatbuffer ----------------*- C++ -*-===//
//
// The writer transcribes and decides nothing. Tables keep the order of their
// ops and kernels that of their first use, so equal programs give equal bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_SERIALIZE_PLANWRITER_H
#define MOE_COMPILER_SERIALIZE_PLANWRITER_H

#include "dialects/plan/Plan.h"
#include "runtime/base/OutputFile.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moec {

/// Returns the bytes of plan.fb. Several programs become the rungs of a ladder,
/// in this order, with the tokenizer of the first. Fails with Internal if a
/// program is unfinished (a buffer or cache without an offset, a weight that is
/// not packed yet), naming what is missing, and with Unsupported if a
/// flatbuffer, which holds 2 GiB, is too small.
moert::StatusOr<std::vector<uint8_t>>
serializePlan(llvm::ArrayRef<mlir::plan::ProgramOp> programs);

/// Writes these bytes to a file that still has to be committed. Fails as
/// OutputFile does.
moert::StatusOr<moert::OutputFile> startPlan(std::span<const uint8_t> bytes,
                                             moert::OutputTarget target);

/// Serialises to a temporary file and renames it, so that a failure leaves
/// neither a partial nor a damaged plan. Fails as OutputFile does.
moert::Status writePlan(llvm::ArrayRef<mlir::plan::ProgramOp> programs,
                        moert::OutputTarget target);

} // namespace moec

#endif // MOE_COMPILER_SERIALIZE_PLANWRITER_H
