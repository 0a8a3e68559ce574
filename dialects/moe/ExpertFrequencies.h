//===- ExpertFrequencies.h - How often experts are chosen -------*- C++ -*-===//

#ifndef MOE_DIALECTS_MOE_EXPERTFREQUENCIES_H
#define MOE_DIALECTS_MOE_EXPERTFREQUENCIES_H

#include "llvm/ADT/StringRef.h"

namespace mlir::moe {

/// On `moe.experts` of a whole layer, where a router profile is known: an
/// array<f32>, of each expert the part of tokens that choose it.
inline constexpr llvm::StringLiteral kFrequenciesAttr = "moe.frequencies";

} // namespace mlir::moe

#endif // MOE_DIALECTS_MOE_EXPERTFREQUENCIES_H
