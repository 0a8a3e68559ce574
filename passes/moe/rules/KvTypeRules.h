//===- KvTypeRules.h - What a user says of the cache's elements -*- C++ -*-===//
//
// "q8_0", "blk.0-3=f16,q8_0", "blk.7=f32": entries apart by commas. An entry
// with layers is for those, one without, at most one, for all others; without
// it that is auto. Of several entries for a layer the last decides.
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
  llvm::StringRef text; ///< As the user wrote it: a view into the option.
  /// The layers that it names; none for all others.
  std::optional<std::pair<int64_t, int64_t>> layers;
  std::optional<moek::KvType> type; ///< None for auto.
};

class KvTypeRules {
public:
  /// `text` outlives them. What is no such text goes to `report` with its cause
  /// and what to do about it.
  static FailureOr<KvTypeRules> parse(
      llvm::StringRef text,
      llvm::function_ref<void(const llvm::Twine &cause, const llvm::Twine &fix)>
          report);

  /// The rule that decides about a layer.
  const KvTypeRule &of(int64_t layer) const;
  /// The rules that name layers, in the user's order.
  llvm::ArrayRef<KvTypeRule> named() const { return named_; }

private:
  llvm::SmallVector<KvTypeRule> named_;
  KvTypeRule rest_ = {"auto", std::nullopt, std::nullopt};
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_RULES_KVTYPERULES_H
