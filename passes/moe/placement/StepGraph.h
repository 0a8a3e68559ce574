//===- StepGraph.h - The instructions of a step, on each device -*- C++ -*-===//
//
// What a function's ops become on each device, so that the instructions of any
// placement can be put together without changing the module. Everything comes
// from where the plan's come from: instructions from the ops' descriptions
// (dialects/moe/Instruction.h), kernels and layouts from moe/kernels, seconds
// from the cost model.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_PLACEMENT_STEPGRAPH_H
#define MOE_PASSES_MOE_PLACEMENT_STEPGRAPH_H

#include "passes/moe/kernels/WeightLayouts.h"
#include "passes/moe/placement/Placement.h"
#include "passes/schedule/Ordering.h"

namespace mlir::moe {

/// An instruction of an op on one device.
struct Piece {
  double seconds = 0;
  /// Of the op's last instruction: the seconds that adding a residual takes, in
  /// it or as an instruction of its own.
  double residualSeconds = 0, addSeconds = 0;
  bool isLarge = false, isSmall = false; ///< See moec::Step.
  /// The region that a shared instruction makes: it is left out where that is
  /// made (dialects/moe/KernelCalls.h). -1: the instruction is not shared.
  int makes = -1;
  SmallVector<moec::RegionUse, 6> uses = {};
};
using Pieces = SmallVector<Piece, 4>;

/// The seconds of an op that has some of a layer's experts. They are not in
/// proportion to its share of the choices: each token's row is read, and its
/// result written, whichever part of its experts is there.
struct SharedSeconds {
  std::vector<double> shares; ///< Ascending. Empty: the op has no such part.
  /// By share, device and piece.
  std::vector<std::vector<SmallVector<double, 4>>> seconds;

  double of(double share, int device, size_t piece) const;
};

struct StepGraph {
  struct Node {
    int group = -1; ///< -1: the function's end, on the host.
    SmallVector<int, 4> reads = {}, results = {}; ///< Values.
    bool isSum = false;         ///< A moe.add, which may be fused.
    bool takesResidual = false; ///< May add a summand to its result.
    bool isDeferred = false;    ///< Its result is for the next layer.
    /// The group of experts that it is, or for which it chooses; -1.
    int experts = -1;
    std::vector<Pieces> pieces = {}; ///< By device.
    /// The same if the layer's experts are divided; empty: no difference.
    std::vector<Pieces> divided = {};
    /// Of experts that are divided: of the chosen ones, which are those used
    /// most, and of the others.
    SharedSeconds ofChosen = {}, ofOthers = {};
    /// Of experts that may be streamed, by device: the instructions that read
    /// the host's layout, and the seconds of their copies; empty: they may not.
    std::vector<Pieces> streamed = {};
    std::vector<double> copySeconds = {};
    double bytes = 0; ///< Weights and caches that it reads.
  };
  /// A value that is one of several others: the one whose node is not absent.
  struct Choice {
    int value;
    SmallVector<int, 3> ways;
  };
  struct Activation {
    int producer = -1; ///< A node; -1: an argument, on the host.
    double bytes = 0;
    int64_t bytesPerToken = 0;
    /// A router's choice, grouped by expert: regions of the lists.
    SmallVector<int, 2> lists = {};
    /// The group of experts that reads the choice; -1.
    int experts = -1;
  };

  std::vector<Node> nodes;
  std::vector<Activation> values;
  std::vector<Choice> choices;
  SmallVector<int, 2> arguments; ///< Values.
  int result = -1;               ///< Value that the host gets.
  /// Regions: those of values are even (2 * value), others are odd. `alias` has
  /// the region of a value that overwrites another value.
  int others = 0;
  SmallVector<int, 0> alias;
  int64_t maxTokens = 1;
  /// Of a sum of activations, by device; empty if there is none.
  SmallVector<double, 4> sumSeconds;
  /// For a step of decoding followed by its logits: the value between the two,
  /// and the first node of the second; -1.
  int handedOver = -1, second = -1;
};

/// Builds graphs of one module.
class StepGraphs {
public:
  /// For `mayPack`, see opSeconds(). `groupOf` has the group of each op.
  StepGraphs(const moec::TargetDesc &target, bool mayPack, Streaming streaming,
             ArrayRef<func::FuncOp> functions,
             std::function<int(Operation *)> groupOf);

  /// Returns the graph of a step of `tokens` tokens. With a second function, it
  /// follows on the first, whose result it reads.
  StepGraph build(func::FuncOp function, int64_t tokens,
                  func::FuncOp second = {});

private:
  struct Builder;
  const moek::GemmInfo *gemmFor(Value weight, int device, PhaseAttr phase);

  const moec::TargetDesc &target;
  bool mayPack;
  Streaming streaming;
  bool readsHostLayout = false; ///< While streamed experts are described.
  std::function<int(Operation *)> groupOf;
  WeightLayouts layouts;
  llvm::DenseMap<std::pair<Value, int>, moek::Layout> layoutOf;
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PLACEMENT_STEPGRAPH_H
