//===- PlacementSearch.h - Which device has which part ----------*- C++ -*-===//
//
// Parts of the model go to devices so that the predicted request is fastest
// within everybody's memory. Looked at are a fixed set of options:
//
//  * whole parts (PlacementCandidates.cpp): attention of the first or the last
//    layers on GPUs, of these layers all FFNs and some experts, in order or by
//    seconds saved per byte, with the head, the embedding, or without; or of
//    all these parts those that save most per byte. On one GPU, or in runs of
//    layers on the first few, divided by fixed shares;
//  * each of these with some experts of layers whose others stay on the host
//    (PlacementFill.cpp): the first ones of a layer or two, any number of them,
//    or those that a router profile has as used most.
//
// Neither what is in the set nor what an option is predicted to take depends on
// how much memory there is: that only decides which options are left, and the
// fastest of these is found. So whatever memory is added, to GPUs or to the
// host, no prediction gets slower. Nothing is changed about an option to make
// it fit, and no step of the search starts from where another within the same
// memory ended: either would undo this.
//
// This is of one graph. Forms of attention and elements of caches are those of
// the device that attention was foreseen on (moe-foresee-devices), so that
// where GPUs have room for the attention of some layers alone, more memory may
// change the graph: of a hundred steps between random machines it slows one.
// And with a profile experts are taken one GPU after the other, each by itself.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_PLACEMENT_PLACEMENTSEARCH_H
#define MOE_PASSES_MOE_PLACEMENT_PLACEMENTSEARCH_H

#include "passes/moe/placement/StepTimes.h"

namespace mlir::moe {

/// A slice of the weights that goes to one device, with what works on it.
struct PlacementUnit {
  enum Kind {
    Attention, ///< Of a layer, with its cache and what has no weights.
    Dense,     ///< A layer's FFN that all tokens go through, or shared experts.
    Experts,   ///< A layer's routed experts.
    Head,      ///< Of no layer: the output's norm and matrix.
    Embedding,
  };
  Kind kind;
  std::optional<int64_t> layer;
  SmallVector<int> groups; ///< Of the problem; none that has a device already.
  int64_t bytes = 0;       ///< Of weights and cache.
};

/// "attention", "experts", ...
StringRef nameOf(PlacementUnit::Kind kind);

class PlacementSearch {
public:
  using Assignment = PlacementProblem::Assignment;

  PlacementSearch(const PlacementProblem &problem,
                  const moec::TargetDesc &target, const StepTimes &times);

  struct Choice {
    Assignment assignment;
    std::vector<int> unitDevices;
    std::vector<ExpertSplit> splits;
    std::vector<DeviceUse> use;
    StepTimes::Prediction predicted;
    bool fits = false;
  };
  /// The fastest that fits; where none does, what leaves least to the host.
  Choice run() const;

  ArrayRef<PlacementUnit> units() const { return unitList; }
  /// The unit of a group, or -1.
  int unitOf(int group) const { return unitIndex[group]; }

  /// What of a unit the device has no kernels for, which keeps all of the unit
  /// off it: a group, or -1.
  int unfitGroupOf(int unit, int device) const;

  /// All that has no device yet on the host.
  Assignment allOnHost() const;
  /// All but routed experts and the embedding on the first GPU, if it has the
  /// kernels.
  Assignment classicSplit() const;
  /// `choice` with one unit elsewhere.
  Assignment moved(const Choice &choice, int unit, int device) const;
  bool fits(ArrayRef<DeviceUse> use) const;

private:
  struct Layer {
    int units[3] = {-1, -1, -1}; ///< By PlacementUnit::Kind.
  };
  struct Candidate {
    std::vector<int> unitDevices;
    StepTimes::Prediction predicted;
    int64_t gpuBytes = 0;
    bool leavesRoomOnHost = false; ///< Of what is known before activations.
  };
  /// One of a group's, of which a router profile is known.
  struct HotExpert {
    int group;
    int64_t number;
    double saved; ///< Seconds per byte.
  };
  /// Which parts are on GPUs, not yet on which.
  struct Selection {
    std::vector<bool> units;
    int64_t bytes = 0;
  };
  /// The first GPUs, or one, and how many parts of all bytes each has.
  struct Division {
    SmallVector<int> gpus, shares;
  };

  std::vector<Candidate> allCandidates() const;
  std::optional<Choice> fastest(ArrayRef<Candidate> sorted) const;
  Choice closest(std::vector<Candidate> candidates) const;
  Choice choiceOf(const Candidate &candidate) const;
  void addUnit(PlacementUnit::Kind kind, std::optional<int64_t> layer,
               int group);
  Assignment assign(ArrayRef<int> unitDevices) const;
  void addFamily(ArrayRef<Division> divisions,
                 std::vector<Candidate> &into) const;
  void addCandidate(std::vector<int> unitDevices,
                    std::vector<Candidate> &into) const;
  std::vector<int> divide(const Selection &selection,
                          const Division &division) const;

  double mostSaved(ArrayRef<int> unitDevices) const;
  void fill(const Choice &whole, std::optional<Choice> &best) const;
  ExpertSplit splitOf(int group, int gpu, int64_t count) const;
  double secondsWithAll(const Choice &choice, int gpu,
                        ArrayRef<int> groups) const;
  std::optional<Choice> withFirst(const Choice &choice, int group,
                                  int gpu) const;
  void fillHot(const Choice &whole, std::optional<Choice> &best) const;
  std::optional<Choice> withHot(const Choice &choice, int gpu,
                                ArrayRef<HotExpert> byGain) const;
  bool takesHot(ArrayRef<int> unitDevices) const;
  SmallVector<int> divisible(ArrayRef<int> unitDevices, int gpu) const;
  double savedPerByte(int unit, int gpu) const;

  const PlacementProblem &problem;
  const StepTimes &times;
  std::vector<int64_t> budgets; ///< Bytes of each device.
  int host, gpuTotal;
  std::vector<PlacementUnit> unitList;
  std::vector<int> unitIndex;
  std::vector<Layer> layers;
  SmallVector<int> heads, embeddings; ///< Units.
  /// Groups of no unit: where they go after, as the search goes on.
  std::vector<SmallVector<int, 2>> sources;
  /// Bytes that a device has whatever is chosen, and bytes that units share.
  std::vector<int64_t> fixedBytes;
  int64_t sharedBytes = 0;
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PLACEMENT_PLACEMENTSEARCH_H
