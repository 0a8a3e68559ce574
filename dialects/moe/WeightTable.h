//===- WeightTable.h - The weights of a module by symbol --------*- C++ -*-===//

#ifndef MOE_DIALECTS_MOE_WEIGHTTABLE_H
#define MOE_DIALECTS_MOE_WEIGHTTABLE_H

#include "dialects/moe/Moe.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::moe {

/// Finds the moe.weight ops of a verified module in constant time and adds
/// derived ones. While a table exists, weights are added and erased only
/// through it.
class WeightTable {
public:
  explicit WeightTable(ModuleOp module) : symbols_(module) {}

  /// Returns the weight that `value`, the result of a moe.weight_ref, refers
  /// to.
  WeightOp of(Value value) const { return lookup(weightSymbol(value)); }
  /// Returns the weights that `weight` is made of.
  SmallVector<WeightOp> partsOf(WeightOp weight) const;

  /// Returns where the bytes of `weight` are in a model file, or nothing if
  /// packing computes them.
  std::optional<StoredBytes> locate(WeightOp weight) const;
  /// Returns the weight whose bytes memory holds for a reader of `weight`:
  /// itself, or the tensor that it is a view of.
  WeightOp residentOf(WeightOp weight) const;

  struct Added {
    WeightOp weight;
    bool isNew;
  };
  /// Returns the weight that `source` makes of `parts`; adds it if the module
  /// lacks it. Its symbol is `name`, with a number appended if another weight
  /// has that.
  Added add(const Twine &name, WeightSourceInterface source,
            ArrayRef<WeightOp> parts, RankedTensorType type);
  /// Removes a weight that nothing refers to.
  void erase(WeightOp weight);

private:
  WeightOp lookup(StringAttr symbol) const {
    return cast<WeightOp>(symbols_.lookup(symbol));
  }

  SymbolTable symbols_;
  /// Tensors of the model file are added after this one. Null at the beginning.
  WeightOp last_;
};

/// Returns the names of the model file's tensors that are weights of `module`,
/// in its order.
SmallVector<StringAttr> fileTensorsOf(ModuleOp module);

} // namespace mlir::moe

#endif // MOE_DIALECTS_MOE_WEIGHTTABLE_H
