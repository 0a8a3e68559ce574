//===- TokenizerOp.h - A model's tokenizer into its plan --------*- C++ -*-===//

#ifndef MOE_COMPILER_SERIALIZE_TOKENIZEROP_H
#define MOE_COMPILER_SERIALIZE_TOKENIZEROP_H

#include "compiler/Import/GgufFile.h"
#include "dialects/plan/Plan.h"

namespace moec {

/// Adds the plan.tokenizer of `model`, chat template included, and a plan.note
/// where the template does not parse. Where the file has no vocabulary, or none
/// is `wanted`, it is a plan.note instead. `pre` is as for
/// tokenizerSpecFromGguf. Fails as that does, and for a chat template that is
/// no string.
moert::Status addTokenizer(mlir::plan::ProgramOp program,
                           const GgufModel &model, bool wanted = true,
                           std::string_view pre = {});

} // namespace moec

#endif // MOE_COMPILER_SERIALIZE_TOKENIZEROP_H
