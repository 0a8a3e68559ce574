//===- PlacementSearch.h - Which device has which part ----------*- C++ -*-===//
//
// Parts of the model go to devices so that the predicted request is fastest
// within everybody's memory. Looked at are: the first or the last layers on
// GPUs, with the experts of some of them, by seconds saved per byte or in
// order, with the head or without; layers in runs, one on each GPU. None of
// these depends on how much memory there is, so that more of it never slows
// their best. Single parts of that are then moved where it helps, and what is
// left of each GPU's memory takes experts of layers whose other experts stay on
// the host (SliceExperts.h): the first ones of a layer or two, or of many
// layers those that a router profile has as used most. From a better start that
// climb ends lower now and then: of a thousand random machines, more memory
// slows three by some per cent.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_PLACEMENTSEARCH_H
#define MOE_PASSES_MOE_PLACEMENTSEARCH_H

#include "passes/moe/StepTimes.h"

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
    int64_t number, bytes;
    double saved; ///< Seconds per byte.
  };
  /// Which parts are on GPUs, not yet on which.
  struct Selection {
    std::vector<bool> units;
    int64_t bytes = 0;
  };

  std::vector<Candidate> allCandidates() const;
  std::optional<Choice> fastest(ArrayRef<Candidate> sorted) const;
  Choice closest(std::vector<Candidate> candidates) const;
  Choice choiceOf(const Candidate &candidate) const;
  void addUnit(PlacementUnit::Kind kind, std::optional<int64_t> layer,
               int group);
  Assignment assign(ArrayRef<int> unitDevices) const;
  void addFamily(ArrayRef<int> gpus, std::vector<Candidate> &into) const;
  void addCandidates(const Selection &selection, ArrayRef<int> gpus,
                     std::vector<Candidate> &into) const;
  void addCandidate(std::vector<int> unitDevices,
                    std::vector<Candidate> &into) const;
  std::vector<int> divide(const Selection &selection, ArrayRef<int> gpus,
                          bool evenly) const;
  void improve(Choice &choice) const;
  void fill(Choice &choice, int gpu) const;
  bool fillWith(Choice &choice, int group, int gpu) const;
  void fillHot(Choice &choice, int gpu) const;
  std::optional<Choice> withHot(const Choice &choice, int gpu,
                                ArrayRef<HotExpert> byGain,
                                ArrayRef<int> groups) const;
  void fillAll(Choice &choice) const;
  std::optional<Choice> withoutExperts(ArrayRef<Candidate> sorted) const;
  SmallVector<int> divisible(const Choice &choice, int gpu) const;
  SmallVector<int> alternatives(const Choice &choice, int unit) const;
  double savedPerByte(int unit, int gpu) const;

  const PlacementProblem &problem;
  const StepTimes &times;
  std::vector<int64_t> budgets; ///< Bytes of each device.
  int host, gpuTotal;
  std::vector<PlacementUnit> unitList;
  std::vector<int> unitIndex;
  std::vector<Layer> layers;
  /// Groups of no unit: where they go after, as the search goes on.
  std::vector<SmallVector<int, 2>> sources;
  /// Bytes that a device has whatever is chosen, and bytes that units share.
  std::vector<int64_t> fixedBytes;
  int64_t sharedBytes = 0;
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PLACEMENTSEARCH_H
