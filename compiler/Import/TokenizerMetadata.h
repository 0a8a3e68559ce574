//===- TokenizerMetadata.h - Checks on tokenizer.ggml.* ---------*- C++ -*-===//

#ifndef MOE_COMPILER_IMPORT_TOKENIZERMETADATA_H
#define MOE_COMPILER_IMPORT_TOKENIZERMETADATA_H

#include "compiler/Import/GgufFile.h"

namespace moec {

/// Values of tokenizer.ggml.token_type.
enum class TokenType : int64_t {
  Undefined = 0,
  Normal = 1,
  Unknown = 2,
  Control = 3,
  UserDefined = 4,
  Unused = 5,
  Byte = 6,
};

/// The byte that `text` names, when it has the form <0xNN>.
std::optional<uint8_t> parseByteToken(std::string_view text);

/// Checks that the keys under tokenizer.ggml. agree with each other: tokens are
/// strings, scores and token types cover all of them, byte tokens read <0xNN>,
/// merges join two parts, and every special id (given, or by default) is in the
/// vocabulary. A file without a vocabulary passes.
moert::Status checkTokenizerMetadata(const GgufModel &model);

} // namespace moec

#endif // MOE_COMPILER_IMPORT_TOKENIZERMETADATA_H
