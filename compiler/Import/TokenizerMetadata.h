//===- TokenizerMetadata.h - Reading tokenizer.ggml.* -----------*- C++ -*-===//

#ifndef MOE_COMPILER_IMPORT_TOKENIZERMETADATA_H
#define MOE_COMPILER_IMPORT_TOKENIZERMETADATA_H

#include "compiler/Import/GgufFile.h"
#include "runtime/text/TokenizerSpec.h"

namespace moec {

/// Checks that the keys under tokenizer.ggml. agree with each other: tokens are
/// strings, scores and token types cover all of them, byte tokens read <0xNN>,
/// merges join two parts, and every special id (given, or by default) is in the
/// vocabulary. A file without a vocabulary passes.
moert::Status checkTokenizerMetadata(const GgufModel &model);

/// The model's tokenizer, for moert::Tokenizer and for the plan. A file without
/// tokenizer.ggml.pre gets "default"; `preOverride`, unless empty, counts in
/// place of what the file says. Fails with InvalidFile as
/// checkTokenizerMetadata does, and for a file without a vocabulary; with
/// Unsupported for a pre-tokenizer that does not exist here.
moert::StatusOr<moert::TokenizerSpec>
tokenizerSpecFromGguf(const GgufModel &model,
                      std::string_view preOverride = {});

} // namespace moec

#endif // MOE_COMPILER_IMPORT_TOKENIZERMETADATA_H
