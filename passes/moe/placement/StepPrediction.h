//===- StepPrediction.h - Predicts the time of a placement's steps ---*- C++
//-*-===//
//
// Simulates a step on several devices: of each candidate the instructions that
// the plan would have, put together from those of each op on each device
// (PlacedStep.h), on the schedule that also tells users the time of a plan.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_PLACEMENT_STEPPREDICTION_H
#define MOE_PASSES_MOE_PLACEMENT_STEPPREDICTION_H

#include "llvm/ADT/StringMap.h"
#include "passes/moe/PassEnums.h"
#include "passes/moe/placement/PlacedStep.h"
#include "passes/moe/placement/Placement.h"

#include <map>

namespace mlir::moe {

/// The requests to optimise for, all equally frequent: a prompt, read in
/// prefill steps, then `generated` tokens, each a step of decode and its
/// logits.
struct RequestMix {
  SmallVector<int64_t, 3> prompts; ///< Tokens; none: only generation counts.
  double generated = 0;
  /// The number of a token's experts that generation defers to the next layer
  /// (DeferExperts.cpp). No earlier op waits for them.
  int64_t deferred = 0;
};

/// Returns requests with a prompt of `prompt` tokens, or with prompts of
/// several lengths if it is 0, and 256 generated tokens; or only the part that
/// the objective is about. No prompt is longer than the context of `module`.
RequestMix requestMix(ModuleOp module, Objective objective, int64_t prompt,
                      int64_t deferred);

/// Describes the prompts: "a prompt of 1024 tokens", "prompts of 256, 2048 and
/// 16384 tokens in the mean".
std::string describePrompts(const RequestMix &mix);

/// Returns the prefill steps of a request in the mean: their number by their
/// tokens.
std::map<int64_t, double> promptSteps(const RequestMix &mix, PhaseAttr prefill);

/// Predicts the times of placements of one problem.
class StepPrediction {
public:
  using Assignment = PlacementProblem::Assignment;

  /// For `mayPack`, see opSeconds.
  StepPrediction(const PlacementProblem &problem,
                 const moec::TargetDesc &target, RequestMix mix, bool mayPack);

  /// Seconds; of requests the mean.
  struct Prediction {
    double request = 0;   ///< What is minimised.
    double decode = 0;    ///< Of a decoded token.
    double prompt = 0;    ///< Of the whole prompt.
    double prefill = 0;   ///< Of the longest step of a prompt.
    bool streams = false; ///< Whether that step streams experts.
  };
  Prediction predict(const Assignment &assignment,
                     ArrayRef<ExpertSplit> splits = {}) const;

  /// Returns the seconds of a request by layer: from the end of all earlier
  /// layers to the layer's own. `layerOf` has the number of each group's layer,
  /// or -1.
  std::vector<double> layerSeconds(const Assignment &assignment,
                                   ArrayRef<int> layerOf, size_t layers) const;

  /// Returns the fewest tokens, within 3 %, of a prompt's step that takes no
  /// longer if it streams experts; 0 if no step does.
  int64_t streamsFrom(const Assignment &assignment,
                      ArrayRef<ExpertSplit> splits) const;
  /// Returns the tokens of the longest step of a prompt; 0 without prompts.
  int64_t longestTokens() const { return longest() ? longest()->tokens : 0; }
  /// Returns the seconds of the longest step of a prompt, with experts streamed
  /// or not.
  double longestStep(const Assignment &assignment, ArrayRef<ExpertSplit> splits,
                     bool streams) const;

  /// Number of steps that were simulated so far.
  int64_t simulations() const { return simulated; }

  /// Number and seconds of the copies between devices for one decoded token.
  struct Transfers {
    int64_t count = 0;
    double seconds = 0;
  };
  Transfers transfersPerToken(const Assignment &assignment,
                              ArrayRef<ExpertSplit> splits = {}) const;

  /// Seconds of a group alone on a device, for one decoded token.
  double decodeSeconds(int group, int device) const {
    return groupSeconds[group * devices + device];
  }
  /// Seconds of a group alone on a device, for the whole request.
  double requestSeconds(int group, int device) const {
    return groupRequest[group * devices + device];
  }
  /// Returns whether the device has kernels for all ops of the group.
  bool canRun(int group, int device) const {
    return runs[group * devices + device];
  }

private:
  /// One function with a given number of tokens.
  struct Graph {
    StepGraph step;
    /// Seconds by what a placement does with the graph's ops: candidates often
    /// differ only elsewhere.
    mutable llvm::StringMap<double> known = {};
    double steps = 0; ///< Runs of the function per request.
    int64_t tokens = 0;
    PhaseKind kind;
  };

  void addGraphs(const RequestMix &mix, ArrayRef<func::FuncOp> functions,
                 function_ref<int(Operation *)> groupOf);
  void addSeconds(func::FuncOp function, int64_t tokens, double steps,
                  bool isDecode);
  bool isJoined(const Assignment &assignment) const;
  double secondsOf(const Graph &graph, const Assignment &assignment,
                   ArrayRef<ExpertSplit> splits, bool streams = false) const;
  bool mayStream(const Graph &graph) const;
  const Graph *longest() const;
  PlacedStep placed(const StepGraph &graph, const Assignment &assignment,
                    ArrayRef<ExpertSplit> splits, bool streams = false) const;

  const PlacementProblem &problem;
  const moec::TargetDesc &target;
  int devices;
  bool mayPack;
  std::vector<Graph> graphs;
  /// A decoded token with its logits, where these may stay on a GPU.
  std::optional<Graph> joined;
  std::vector<double> groupSeconds, groupRequest;
  std::vector<bool> runs;
  mutable int64_t simulated = 0;
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PLACEMENT_STEPPREDICTION_H
