//===- PreTokenizerFit.h - Guesses a vocabulary's pre-tokenizer -*- C++ -*-===//

#ifndef MOE_COMPILER_IMPORT_PRETOKENIZERFIT_H
#define MOE_COMPILER_IMPORT_PRETOKENIZERFIT_H

#include "compiler/Import/GgufFile.h"

#include <optional>
#include <string_view>

namespace moec {

/// Returns the pre-tokenizer that the model's vocabulary was most likely made
/// with. Merges never cross words, so the right rules split no token. Among the
/// rules that split none, it takes those that split text into most words:
/// coarser rules would have produced tokens that these split. Returns none for
/// a vocabulary that is too small, does not consist of bytes, or fits no rules.
std::optional<std::string_view> fittingPreTokenizer(const GgufModel &model);

} // namespace moec

#endif // MOE_COMPILER_IMPORT_PRETOKENIZERFIT_H
