//===- PassEnums.h - Choices that pass options offer ------------*- C++ -*-===//

#ifndef MOE_PASSES_MOE_PASSENUMS_H
#define MOE_PASSES_MOE_PASSENUMS_H

#include "llvm/Support/CommandLine.h"

namespace mlir::moe {

/// Form of multi-head latent attention. `Unset` leaves the choice to a more
/// general option.
enum class MlaForm { Unset, Auto, None, Factored, Folded };

/// Values of --weights. `Pack` allows moec to compute weights and write them to
/// plan.weights; `Reference` only reads the model file.
enum class WeightsMode { Auto, Pack, Load, Reference };

/// Workload that placement optimises for: generation, reading prompts, or a
/// typical request with both.
enum class Objective { Decode, Prefill, Balanced };

inline auto objectiveValues() {
  return llvm::cl::values(
      clEnumValN(Objective::Decode, "decode", "generated tokens"),
      clEnumValN(Objective::Prefill, "prefill", "prompts"),
      clEnumValN(Objective::Balanced, "balanced",
                 "a typical prompt and 256 tokens generated"));
}

inline auto mlaFormValues() {
  return llvm::cl::values(
      clEnumValN(MlaForm::Unset, "unset", "as the more general option says"),
      clEnumValN(MlaForm::Auto, "auto", "the fastest by the cost model"),
      clEnumValN(MlaForm::None, "none", "decompress keys and values"),
      clEnumValN(MlaForm::Factored, "factored", "W_UK on the query's side"),
      clEnumValN(MlaForm::Folded, "folded", "W_UK multiplied into W_Q"));
}

inline auto weightsModeValues() {
  return llvm::cl::values(
      clEnumValN(WeightsMode::Auto, "auto", "pack or load what gets faster by it"),
      clEnumValN(WeightsMode::Pack, "pack", "write plan.weights"),
      clEnumValN(WeightsMode::Load, "load", "lay out while loading"),
      clEnumValN(WeightsMode::Reference, "reference",
                 "use the model file's bytes only"));
}

/// Command-line values of an enumeration, selected by its type.
inline auto valuesOf(Objective) { return objectiveValues(); }
inline auto valuesOf(MlaForm) { return mlaFormValues(); }
inline auto valuesOf(WeightsMode) { return weightsModeValues(); }

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PASSENUMS_H
