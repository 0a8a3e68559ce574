//===- KvTypeRules.h - Parses --kv-type -------------------------*- C++ -*-===//
//
// Examples: "q8_0", "blk.0-3=f16,q8_0", "blk.7=f32". Commas separate entries.
// An entry with layers applies to these; at most one entry without layers
// applies to all others, which otherwise are auto. If several entries name a
// layer, the last one decides.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_RULES_KVTYPERULES_H
#define MOE_PASSES_MOE_RULES_KVTYPERULES_H

#include "kernels/Types.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "mlir/Support/LLVM.h"

#include <optional>

namespace mlir::moe {

struct KvTypeRule {
  llvm::StringRef text; ///< The user's text: a view into the option.
  /// The layers that the entry names; none for all other layers.
  std::optional<std::pair<int64_t, int64_t>> layers;
  std::optional<moek::KvType> type; ///< None for auto.
};

class KvTypeRules {
public:
  /// Parses `text`, which must outlive the rules. Reports an invalid text with
  /// its cause and a fix.
  static FailureOr<KvTypeRules> parse(
      llvm::StringRef text,
      llvm::function_ref<void(const llvm::Twine &cause, const llvm::Twine &fix)>
          report);

  /// Returns the rule that decides about a layer.
  const KvTypeRule &of(int64_t layer) const;
  /// The rules that name layers, in the user's order.
  llvm::ArrayRef<KvTypeRule> named() const { return named_; }

private:
  llvm::SmallVector<KvTypeRule> named_;
  KvTypeRule rest_ = {"auto", std::nullopt, std::nullopt};
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_RULES_KVTYPERULES_H
