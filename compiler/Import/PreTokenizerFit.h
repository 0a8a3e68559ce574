//===- PreTokenizerFit.h - How a vocabulary cuts words ----------*- C++ -*-===//

#ifndef MOE_COMPILER_IMPORT_PRETOKENIZERFIT_H
#define MOE_COMPILER_IMPORT_PRETOKENIZERFIT_H

#include "compiler/Import/GgufFile.h"

#include <optional>
#include <string_view>

namespace moec {

/// The pre-tokenizer that the model's vocabulary was most likely made with.
/// Merges never cross words, so its rules cut no token into two; of the rules
/// that cut none, those that cut text into most words are taken, as coarser
/// ones would have left tokens that they cut. None for a vocabulary that is too
/// small to tell, is not of bytes, or fits no rules.
std::optional<std::string_view> fittingPreTokenizer(const GgufModel &model);

} // namespace moec

#endif // MOE_COMPILER_IMPORT_PRETOKENIZERFIT_H
