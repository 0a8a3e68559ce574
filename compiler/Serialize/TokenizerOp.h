//===- TokenizerOp.h - A model's tokenizer into its plan --------*- C++ -*-===//

#ifndef MOE_COMPILER_SERIALIZE_TOKENIZEROP_H
#define MOE_COMPILER_SERIALIZE_TOKENIZEROP_H

#include "compiler/Import/GgufFile.h"
#include "dialects/plan/Plan.h"

namespace moec {

/// Adds the plan.tokenizer of `model`, chat template included. Where the file
/// has no vocabulary, or none is `wanted`, it is a plan.note instead. Fails as
/// tokenizerSpecFromGguf does, and for a chat template that is no string.
moert::Status addTokenizer(mlir::plan::ProgramOp program,
                           const GgufModel &model, bool wanted = true);

} // namespace moec

#endif // MOE_COMPILER_SERIALIZE_TOKENIZEROP_H
