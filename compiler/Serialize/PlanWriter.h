//===- PlanWriter.h - plan dialect to flatbuffer ----------------*- C++ -*-===//
//
// Transcribes; decides nothing. Tables keep the order of their ops, kernels
// the order of their first use, so that equal programs give equal bytes.
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

/// The bytes of plan.fb. Fails with Internal while the program is unfinished (a
/// buffer or cache without an offset, a weight that is not packed yet), naming
/// what is missing, and with Unsupported beyond the 2 GiB of a flatbuffer.
/// Several programs are a ladder of rungs in this order; the tokenizer is that
/// of the first.
moert::StatusOr<std::vector<uint8_t>>
serializePlan(llvm::ArrayRef<mlir::plan::ProgramOp> programs);

/// Writes them to a file that still has to be committed. Fails as OutputFile
/// does.
moert::StatusOr<moert::OutputFile> startPlan(std::span<const uint8_t> bytes,
                                             moert::OutputTarget target);

/// Serialises to a temporary file and renames it, so that a failure leaves
/// neither a partial nor a damaged plan. Fails as OutputFile does.
moert::Status writePlan(llvm::ArrayRef<mlir::plan::ProgramOp> programs,
                        moert::OutputTarget target);

} // namespace moec

#endif // MOE_COMPILER_SERIALIZE_PLANWRITER_H
