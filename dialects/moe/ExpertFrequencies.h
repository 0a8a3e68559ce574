//===- ExpertFrequencies.h - How often experts are chosen -------*- C++ -*-===//

#ifndef MOE_DIALECTS_MOE_EXPERTFREQUENCIES_H
#define MOE_DIALECTS_MOE_EXPERTFREQUENCIES_H

#include "llvm/ADT/StringRef.h"

namespace mlir::moe {

/// On `moe.experts` of a whole layer for which a router profile is known: an
/// array<f32> with the fraction of tokens that choose each expert.
inline constexpr llvm::StringLiteral kFrequenciesAttr = "moe.frequencies";

} // namespace mlir::moe

#endif // MOE_DIALECTS_MOE_EXPERTFREQUENCIES_H
