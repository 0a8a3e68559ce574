//===- TokenizerMetadata.h - Reads tokenizer.ggml.* -------------*- C++ -*-===//

#ifndef MOE_COMPILER_IMPORT_TOKENIZERMETADATA_H
#define MOE_COMPILER_IMPORT_TOKENIZERMETADATA_H

#include "compiler/Import/GgufFile.h"
#include "runtime/text/TokenizerSpec.h"

namespace moec {

/// Checks that the keys under tokenizer.ggml. are consistent: tokens are
/// strings, scores and token types cover all of them, byte tokens have the form
/// <0xNN>, merges join two parts, and every special id (from the file or by
/// default) is in the vocabulary. A file without a vocabulary passes.
moert::Status checkTokenizerMetadata(const GgufModel &model);

/// Returns the model's tokenizer, for moert::Tokenizer and for the plan. A file
/// without tokenizer.ggml.pre gets "default"; `preOverride`, unless empty,
/// replaces the file's. Fails with InvalidFile like checkTokenizerMetadata and
/// for a file without a vocabulary, and with Unsupported for an unknown
/// pre-tokenizer.
moert::StatusOr<moert::TokenizerSpec>
tokenizerSpecFromGguf(const GgufModel &model,
                      std::string_view preOverride = {});

} // namespace moec

#endif // MOE_COMPILER_IMPORT_TOKENIZERMETADATA_H
