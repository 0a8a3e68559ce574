//===- StepTimes.h - How long a placement's steps take ----------*- C++ -*-===//
//
// A step on several devices: each does its ops in the order of the program, an
// op starts when its device is free and its values are there, and copies go one
// after the other over the link of a GPU. So devices overlap where the program
// lets them.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_PLACEMENT_STEPTIMES_H
#define MOE_PASSES_MOE_PLACEMENT_STEPTIMES_H

#include "passes/moe/PassEnums.h"
#include "passes/moe/placement/Placement.h"

namespace mlir::moe {

/// What a placement is to be fast at: `prompt` tokens of a prompt in steps of
/// prefill, then `generated` ones, each a step of decode and its logits.
struct RequestMix {
  double prompt = 0, generated = 0;
  /// Of a token's experts of a layer, how many generation adds a layer later
  /// (DeferExperts.cpp): nobody waits for them before.
  int64_t deferred = 0;
};

/// Of a request of `prompt` tokens, and an answer where the objective has any.
RequestMix requestMix(Objective objective, int64_t prompt, int64_t deferred);

/// A prompt in steps of one length; without a prompt there are none.
struct PromptSteps {
  int64_t tokens = 0;
  double count = 0;
};
PromptSteps promptSteps(double prompt, PhaseAttr prefill);

/// Predictions for placements of one problem.
class StepTimes {
public:
  using Assignment = PlacementProblem::Assignment;

  /// `mayPack`: as opSeconds has it.
  StepTimes(const PlacementProblem &problem, const moec::TargetDesc &target,
            RequestMix mix, bool mayPack);

  struct Prediction {
    double request = 0; ///< Seconds of the mix: what is minimised.
    double decode = 0;  ///< Of a token.
    double prompt = 0;  ///< Of the whole prompt.
  };
  Prediction predict(const Assignment &assignment,
                     ArrayRef<ExpertSplit> splits = {}) const;

  /// Copies between devices and their seconds for one decoded token.
  struct Transfers {
    int64_t count = 0;
    double seconds = 0;
  };
  Transfers transfersPerToken(const Assignment &assignment,
                              ArrayRef<ExpertSplit> splits = {}) const;

  /// Seconds of a group for one decoded token on a device, by itself.
  double decodeSeconds(int group, int device) const {
    return groupSeconds[group * devices + device];
  }
  /// The same for its share of the mix.
  double requestSeconds(int group, int device) const {
    return groupRequest[group * devices + device];
  }
  /// Whether the device has kernels for all ops of the group.
  bool canRun(int group, int device) const {
    return runs[group * devices + device];
  }

private:
  struct Node {
    int group;                    ///< -1: the function's end, on the host.
    SmallVector<int, 4> reads;    ///< Values.
    std::vector<double> seconds;  ///< By device, of them ...
    std::vector<double> overhead; ///< ... beside its work.
    double instructions = 1;
    double resultBytes = 0;
    /// Deferred experts, and the sum of them and of the next layer's.
    bool isLate = false, isSum = false;
  };
  struct ValueInfo {
    int producer; ///< A node, or -1 for an argument of the function.
    double bytes;
  };
  /// One function at one number of tokens.
  struct Graph {
    std::vector<Node> nodes;
    std::vector<ValueInfo> values;
    double steps = 0; ///< Of it in the mix.
    bool decode = false;
  };

  struct Deferral;
  void addGraph(func::FuncOp function, int64_t tokens, double steps,
                int64_t deferred);
  double simulate(const Graph &graph, const Assignment &assignment,
                  ArrayRef<ExpertSplit> splits = {},
                  Transfers *transfers = nullptr) const;
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

#endif // MOE_PASSES_MOE_PLACEMENT_STEPTIMES_H
