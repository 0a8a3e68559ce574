//===- Placement.h - Ops by label, and what a device must hold --*- C++ -*-===//
//
// What moe-place-devices decides about and the arithmetic of its budgets.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_PLACEMENT_PLACEMENT_H
#define MOE_PASSES_MOE_PLACEMENT_PLACEMENT_H

#include "compiler/Machine/Targets/Target.h"
#include "dialects/moe/Moe.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <vector>

namespace mlir::moe {

/// Weights by name with the bytes that must be resident. Views of one tensor
/// are that tensor.
using WeightSet = llvm::MapVector<StringAttr, int64_t>;

/// The ops of one label in all phases: the unit of placement. An attention may
/// have another form and other labels in another phase; its layer holds them
/// together. Ops of one label that are on different devices already are groups
/// of their own.
struct OpGroup {
  std::string label;
  std::optional<int64_t> layer;
  /// The device that the ops are on already, as an index into the target's;
  /// -1: placement decides.
  int device = -1;
  SmallVector<Operation *> ops;
  WeightSet weights;
  int64_t weightBytes = 0;
  /// Of the cache that the group appends to, for all sequences.
  int64_t kvBytes = 0;
  /// For one decoded token in the typical step.
  Cost decodeCost;
  /// Largest share of its resident bytes that an op reads for one token: 1
  /// for a dense op, k/E for routed experts, 1/vocabulary for the embedding.
  double readFraction = 0;

  /// FLOPs of a token per byte that must be resident for them.
  double intensity() const {
    return weightBytes ? decodeCost.flops / double(weightBytes) : 0;
  }
};

/// Some experts of a layer on another device than the rest. Of its two sums the
/// rest's goes there.
struct ExpertSplit {
  int group;
  int device; ///< Of the chosen; the rest is where the group is assigned.
  int64_t experts;
  SmallVector<int64_t> chosen; ///< Ascending.
  double share = 0;            ///< Of all choices, that are of the chosen.

  int64_t count() const { return int64_t(chosen.size()); }
};

/// Bytes that one device must hold.
struct DeviceUse {
  int64_t weights = 0;
  int64_t kv = 0;
  int64_t activations = 0; ///< The largest phase.
  int64_t scratch = 0;     ///< Of all workers; a GPU's kernels share one.
  int64_t staging = 0;     ///< Double buffers of transfers.

  int64_t total() const {
    return weights + kv + activations + scratch + staging;
  }
};

/// The module as placement sees it.
class PlacementProblem {
public:
  /// A device of the target for every group, as an index into its devices.
  using Assignment = std::vector<int>;

  PlacementProblem(ModuleOp module, const moec::TargetDesc &target);

  /// In the order of the first function that has a label.
  ArrayRef<OpGroup> groups() const { return groupList; }
  /// The group of the op that makes an activation, or -1.
  int groupOf(Operation *op) const {
    auto it = groupIndex.find(op);
    return it == groupIndex.end() ? -1 : it->second;
  }
  /// Of each layer's cache.
  int64_t kvRows() const { return kvRowCount; }

  /// Of all weights of the model, each once.
  double weightElements() const;

  /// With splits, at least what the module has that is split like that.
  std::vector<DeviceUse> memoryUse(const Assignment &assignment,
                                   ArrayRef<ExpertSplit> splits = {}) const;

  /// Functions of the module, each with a phase.
  ArrayRef<func::FuncOp> phases() const { return functions; }
  /// Of an activation for `tokens` tokens; 0 for a weight or a cache.
  static int64_t bytesOf(Value value, int64_t tokens);

private:
  /// Groups by label and device; a missing one is null.
  using GroupIndex = llvm::DenseMap<std::pair<Attribute, Attribute>, int>;
  void addOp(Operation *op, PhaseAttr phase, GroupIndex &known);
  /// What of a function does not depend on an assignment. Groups are -1 for
  /// what has none, positions those of ops in the function.
  struct ValueMemory {
    int group, begin;
    int64_t bytes;
    SmallVector<std::pair<int, int>, 2> users; ///< Groups and positions.
  };
  struct OpMemory {
    int group;
    SmallVector<int64_t, 3> inside, scratch; ///< By device.
    int64_t sumBytes = 0, choiceBytes = 0;   ///< Of experts: result, ids.
  };
  struct FunctionMemory {
    std::vector<ValueMemory> values;
    std::vector<OpMemory> ops;
  };
  void numberWeights();
  void addMemory(func::FuncOp function);
  void addFunction(const FunctionMemory &function, const Assignment &assignment,
                   ArrayRef<const ExpertSplit *> splitOf,
                   std::vector<DeviceUse> &use) const;
  int hostIndex() const { return int(target.devices.size()) - 1; }

  SmallVector<func::FuncOp> functions;
  const moec::TargetDesc &target;
  std::vector<OpGroup> groupList;
  llvm::DenseMap<Operation *, int> groupIndex;
  /// Of each group: weights by number, and their bytes.
  std::vector<SmallVector<std::pair<int, int64_t>, 2>> groupWeights;
  size_t weightCount = 0;
  std::vector<FunctionMemory> functionMemory;
  int64_t kvRowCount = 0;
  int64_t mostPositions = 0, mostSequences = 1; ///< Of a sequence, of a step.
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PLACEMENT_PLACEMENT_H
