//===- Placement.h - Op groups and the memory that they need ----*- C++ -*-===//
//
// The input of moe-place-devices, and the arithmetic of its memory budgets.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_PLACEMENT_PLACEMENT_H
#define MOE_PASSES_MOE_PLACEMENT_PLACEMENT_H

#include "compiler/Machine/Targets/Target.h"
#include "dialects/moe/WeightTable.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <vector>

namespace mlir::moe {

/// Symbols of weights and the bytes that must be resident. All views of a fused
/// tensor count as that tensor.
using WeightSet = llvm::MapVector<StringAttr, int64_t>;

/// The ops of one label in all phases: the unit of placement. Attention may
/// have another form, with other labels, in another phase; such groups are kept
/// together by their layer. Ops of one label that already have different
/// devices are separate groups, and so are ops that only some devices have
/// (moe.only_on).
struct OpGroup {
  std::string label;
  std::optional<int64_t> layer;
  /// The device that the ops already have, as an index into the target's
  /// devices; -1 lets placement decide.
  int device = -1;
  /// By device: whether the group exists if `reader`, a group that reads the
  /// cache, is there; empty: it always does.
  SmallVector<bool, 0> only;
  int reader = -1;
  /// Of a prompt's routed experts that may be streamed (StreamedExperts.h): the
  /// group of their router, the devices that can read them, and the bytes
  /// there.
  int router = -1;
  SmallVector<bool, 0> streamsTo;
  int64_t slotBytes = 0, keptBytes = 0;
  SmallVector<Operation *> ops;
  WeightSet weights;
  int64_t weightBytes = 0;
  /// Bytes of the cache that the group appends to, for all sequences.
  int64_t kvBytes = 0;
  /// Cost of one decoded token in the typical step.
  Cost decodeCost;
  /// Largest fraction of an op's resident bytes that one token reads: 1 for a
  /// dense op, k/E for routed experts, 1/vocabulary for the embedding.
  double readFraction = 0;

  /// FLOPs per token and byte of resident weights.
  double intensity() const {
    return weightBytes ? decodeCost.flops / double(weightBytes) : 0;
  }

  bool existsOn(int attentionDevice) const {
    return only.empty() || only[size_t(attentionDevice)];
  }
};

/// In place of a device: the group does not exist in this placement.
inline constexpr int kAbsent = -1;

/// Experts of a layer that are on another device than the rest. The rest's
/// result is copied to that device, which adds the two.
struct ExpertSplit {
  int group;
  int device; ///< Has the chosen experts; others follow the assignment.
  int64_t experts;
  SmallVector<int64_t> chosen; ///< Ascending.
  double share = 0;            ///< Fraction of choices that select them.

  int64_t count() const { return int64_t(chosen.size()); }
};

/// Bytes that one device must hold.
struct DeviceUse {
  int64_t weights = 0;
  int64_t kv = 0;
  int64_t activations = 0; ///< What the largest phase needs.
  int64_t scratch = 0;     ///< For all CPU workers, or shared by GPU kernels.
  int64_t slots = 0;       ///< For experts that are copied to the GPU.
  int64_t staging = 0;     ///< Double buffers of copies.

  int64_t total() const {
    return weights + kv + activations + scratch + slots + staging;
  }
};

/// Returns the total of each device.
std::vector<int64_t> totalsOf(ArrayRef<DeviceUse> use);

/// Whether the host's experts are copied to GPUs in a prompt's long steps.
struct Streaming {
  int64_t from = 0;    ///< Tokens of the shortest such step; 0: there is none.
  bool must = false;   ///< Whether only placements count in which some are.
  bool pinned = false; ///< Without the ring (kPinnedAttr).
};

/// The groups of a module, and what placement needs to know about them.
class PlacementProblem {
public:
  /// The device of every group, as an index into the target's devices, or
  /// kAbsent.
  using Assignment = std::vector<int>;

  PlacementProblem(ModuleOp module, const moec::TargetDesc &target,
                   Streaming streaming = {});

  /// Groups in the order in which their labels first appear.
  ArrayRef<OpGroup> groups() const { return groupList; }
  /// Returns the group of an op, or -1.
  int groupOf(Operation *op) const {
    auto it = groupIndex.find(op);
    return it == groupIndex.end() ? -1 : it->second;
  }
  /// Rows of each layer's cache.
  int64_t kvRows() const { return kvRowCount; }

  /// Marks the groups as absent that do not exist with the attention of
  /// `assignment`.
  void markAbsent(Assignment &assignment) const;

  const Streaming &streaming() const { return streams; }
  /// Returns whether experts have to be streamed and none of the host's are.
  bool lacksStreaming(const Assignment &assignment) const;
  /// Returns the GPU to which the group's experts are copied in long steps of a
  /// prompt, or kAbsent: they are on the host and the router of their layer is
  /// on a GPU that can read them.
  int streamedTo(int group, const Assignment &assignment,
                 ArrayRef<const ExpertSplit *> splitOf) const;

  /// Number of weight elements of the model, counting each tensor once.
  double weightElements() const;

  /// Returns the bytes that each device needs. With splits, the estimate is at
  /// least what the split module needs.
  std::vector<DeviceUse> memoryUse(const Assignment &assignment,
                                   ArrayRef<ExpertSplit> splits = {}) const;

  /// Number of calls of memoryUse() so far.
  int64_t memoryChecks() const { return checks; }

  /// Functions of the module, each with a phase.
  ArrayRef<func::FuncOp> phases() const { return functions; }
  /// Returns the bytes of an activation for `tokens` tokens; 0 for a weight or
  /// a cache.
  static int64_t bytesOf(Value value, int64_t tokens);

private:
  /// Groups by label, device and kOnlyOnAttr (null without).
  using GroupIndex =
      llvm::DenseMap<std::tuple<Attribute, Attribute, Attribute>, int>;
  void addOp(Operation *op, PhaseAttr phase, GroupIndex &known);
  void addReaders(AlternativesOp op);
  void addStreamed(func::FuncOp prefill);
  void addStreaming(const Assignment &assignment,
                    ArrayRef<const ExpertSplit *> splitOf,
                    std::vector<DeviceUse> &use) const;
  /// Parts of a function's memory that do not depend on the assignment.
  /// Positions are those of ops in the function; group -1 means no group.
  struct ValueMemory {
    int group, begin;
    int64_t bytes;
    SmallVector<std::pair<int, int>, 2> users; ///< Groups and positions.
  };
  struct OpMemory {
    int group;
    SmallVector<int64_t, 3> inside, scratch; ///< By device.
    int64_t sumBytes = 0, choiceBytes = 0;   ///< Result and ids of experts.
  };
  struct FunctionMemory {
    std::vector<ValueMemory> values;
    std::vector<OpMemory> ops;
  };
  /// Returns what memory holds for a reader of `weight`: symbol and bytes.
  std::pair<StringAttr, int64_t> residentBytes(Value weight) const;
  void numberWeights();
  void addMemory(func::FuncOp function);
  void addFunction(const FunctionMemory &function, const Assignment &assignment,
                   ArrayRef<const ExpertSplit *> splitOf,
                   std::vector<DeviceUse> &use) const;
  int hostIndex() const { return int(target.devices.size()) - 1; }

  SmallVector<func::FuncOp> functions;
  const moec::TargetDesc &target;
  WeightTable weights;
  std::vector<OpGroup> groupList;
  llvm::DenseMap<Operation *, int> groupIndex;
  /// For each group, the numbers and bytes of its weights.
  std::vector<SmallVector<std::pair<int, int64_t>, 2>> groupWeights;
  size_t weightCount = 0;
  std::vector<FunctionMemory> functionMemory;
  int64_t kvRowCount = 0;
  Streaming streams;
  mutable int64_t checks = 0;
  int64_t mostPositions = 0, mostSequences = 1; ///< Per sequence, per step.
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PLACEMENT_PLACEMENT_H
