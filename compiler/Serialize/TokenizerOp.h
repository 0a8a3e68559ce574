//===- TokenizerOp.h - A model's tokenizer into its plan --------*- C++ -*-===//

#ifndef MOE_COMPILER_SERIALIZE_TOKENIZEROP_H
#define MOE_COMPILER_SERIALIZE_TOKENIZEROP_H

#include "compiler/Import/GgufFile.h"
#include "dialects/plan/Plan.h"

namespace moec {

/// Adds the plan.tokenizer of `model` with its chat template, and a plan.note
/// if the template does not parse. One for conversations with tools
/// (tokenizer.chat_template.tool_use) is a part of it. If the file has no
/// vocabulary or none is `wanted`, adds only a plan.note.
/// tokenizerSpecFromGguf() describes `pre`. Fails as that function does, and if
/// the chat template is no string.
moert::Status addTokenizer(mlir::plan::ProgramOp program,
                           const GgufModel &model, bool wanted = true,
                           std::string_view pre = {});

} // namespace moec

#endif // MOE_COMPILER_SERIALIZE_TOKENIZEROP_H
