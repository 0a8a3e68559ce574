//===- StepPrediction.h - Predicts the time of a placement's steps ---*- C++
//-*-===//
//
// Simulates a step on several devices. Each device runs its ops in program
// order. An op starts when its device is free and its inputs have arrived, and
// copies use the link of a GPU one after the other. So devices overlap as far
// as the program lets them.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_PLACEMENT_STEPPREDICTION_H
#define MOE_PASSES_MOE_PLACEMENT_STEPPREDICTION_H

#include "passes/moe/PassEnums.h"
#include "passes/moe/placement/Placement.h"

namespace mlir::moe {

/// The request to optimise for: a prompt of `prompt` tokens, read in prefill
/// steps, then `generated` tokens, each a step of decode and its logits.
struct RequestMix {
  double prompt = 0, generated = 0;
  /// The number of a token's experts that generation defers to the next layer
  /// (DeferExperts.cpp). No earlier op waits for them.
  int64_t deferred = 0;
};

/// Returns a request with a prompt of `prompt` tokens and 256 generated tokens,
/// or only the part that the objective is about.
RequestMix requestMix(Objective objective, int64_t prompt, int64_t deferred);

/// The steps of a prompt, all with the same number of tokens; no steps without
/// a prompt.
struct PromptSteps {
  int64_t tokens = 0;
  double count = 0;
};
PromptSteps promptSteps(double prompt, PhaseAttr prefill);

/// Predicts the times of placements of one problem.
class StepPrediction {
public:
  using Assignment = PlacementProblem::Assignment;

  /// For `mayPack`, see opSeconds.
  StepPrediction(const PlacementProblem &problem,
                 const moec::TargetDesc &target, RequestMix mix, bool mayPack);

  struct Prediction {
    double request = 0; ///< Seconds of the request, which are minimised.
    double decode = 0;  ///< Seconds of a decoded token.
    double prompt = 0;  ///< Seconds of the whole prompt.
  };
  Prediction predict(const Assignment &assignment,
                     ArrayRef<ExpertSplit> splits = {}) const;

  /// Returns the seconds of a request by layer: from the end of all earlier
  /// layers to the layer's own. `layerOf` has the number of each group's layer,
  /// or -1.
  std::vector<double> layerSeconds(const Assignment &assignment,
                                   ArrayRef<int> layerOf, size_t layers) const;

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
  struct Node {
    int group;                    ///< -1: the function's end, on the host.
    SmallVector<int, 4> reads;    ///< Values.
    std::vector<double> seconds;  ///< By device, including ...
    std::vector<double> overhead; ///< ... starts and barriers.
    double instructions = 1;
    double resultBytes = 0;
    double readBytes = 0; ///< Weights and caches.
    /// Whether it is a deferred op, or the sum that adds its result.
    bool isDeferred = false, isSum = false;
  };
  struct ValueInfo {
    int producer; ///< A node, or -1 for an argument of the function.
    double bytes;
  };
  /// One function with a given number of tokens.
  struct Graph {
    std::vector<Node> nodes;
    std::vector<ValueInfo> values;
    double steps = 0; ///< Runs of the function per request.
    bool decode = false;
  };

  struct Deferral;
  void addGraph(func::FuncOp function, int64_t tokens, double steps,
                int64_t deferred);
  double simulate(const Graph &graph, const Assignment &assignment,
                  ArrayRef<ExpertSplit> splits = {},
                  Transfers *transfers = nullptr,
                  std::vector<double> *ends = nullptr) const;
  double copySeconds(double bytes, int from, int to) const;

  const PlacementProblem &problem;
  const moec::TargetDesc &target;
  int devices;
  bool mayPack;
  std::vector<Graph> graphs;
  std::vector<double> groupSeconds, groupRequest;
  std::vector<bool> runs;
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PLACEMENT_STEPPREDICTION_H
