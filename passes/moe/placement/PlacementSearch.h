//===- PlacementSearch.h - Search for the fastest placement -----*- C++ -*-===//
//
// Assigns parts of the model to devices so that the predicted request is
// fastest and every device has enough memory:
//
//  * For models of many layers, PlacementPaths.cpp prices the ways in which
//  each
//    layer can run, and Chain.h finds the fastest paths through all layers that
//    fit each GPU. A GPU has what is left by the most activations and scratch
//    that a placement may need there. The prices add up to what is predicted
//    within a few percent; the simulator predicts each path.
//  * For others, and where no path fits, PlacementCandidates.cpp has a fixed
//  set
//    of placements of whole units: attention of the first or the last layers on
//    GPUs, with all FFNs and some experts of these layers (in order, or by
//    seconds saved per byte), with or without the head and the embedding; or of
//    all these the units that save most per byte. They go to one GPU, or as
//    runs of layers to the first few GPUs in fixed proportions. Since memory
//    only decides which of them remain, more of it never makes a prediction
//    slower.
//  * PlacementFill.cpp fills what is left with some experts of layers whose
//    other experts stay on the host: any number of the first experts of two
//    layers of a GPU, or the experts that a router profile counts most often.
//
// Forms of attention are part of the graph: an assignment has those of the
// device that its attention gets (kAbsent).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_PLACEMENT_PLACEMENTSEARCH_H
#define MOE_PASSES_MOE_PLACEMENT_PLACEMENTSEARCH_H

#include "compiler/Machine/CostModel/Memories.h"
#include "passes/moe/placement/Chain.h"
#include "passes/moe/placement/StepPrediction.h"

namespace mlir::moe {

/// A part of the model that goes to one device as a whole: weights, and the ops
/// that use them.
struct PlacementUnit {
  enum Kind {
    Attention, ///< A layer's attention, its cache and ops without weights.
    Dense,     ///< A layer's dense FFN or shared experts.
    Experts,   ///< A layer's routed experts.
    Head,      ///< The output norm and matrix, which belong to no layer.
    Embedding,
  };
  Kind kind;
  std::optional<int64_t> layer;
  SmallVector<int> groups; ///< Groups that have no device yet.
  /// Weights and cache on each device: of the groups that exist there.
  SmallVector<int64_t> bytes;
  int64_t leastBytes = 0; ///< On any device.
};

/// Returns the kind's name in messages: "attention", "experts", ...
StringRef nameOf(PlacementUnit::Kind kind);

class PlacementSearch {
public:
  using Assignment = PlacementProblem::Assignment;

  PlacementSearch(const PlacementProblem &problem,
                  const moec::TargetDesc &target, const StepPrediction &times);

  struct Choice {
    Assignment assignment;
    std::vector<int> unitDevices;
    std::vector<ExpertSplit> splits;
    std::vector<DeviceUse> use;
    StepPrediction::Prediction predicted;
    bool fits = false;
    /// The paths that it was chosen from, for a remark; "" if there were none.
    std::string paths;
  };
  /// Returns the fastest choice that fits. If none fits, returns the one that
  /// leaves least to the host.
  Choice run() const;

  ArrayRef<PlacementUnit> units() const { return unitList; }
  /// Returns the unit of a group, or -1.
  int unitOf(int group) const { return unitIndex[group]; }

  /// Returns a group of the unit for which the device has no kernels, which
  /// keeps the whole unit off the device; -1 if there is none.
  int unfitGroupOf(int unit, int device) const;

  /// Assigns everything that has no device yet to the host.
  Assignment allOnHost() const;
  /// Assigns everything but routed experts and the embedding to the first GPU,
  /// where it has the kernels.
  Assignment classicSplit() const;
  /// Returns the assignment of `choice` with one unit on another device.
  Assignment moved(const Choice &choice, int unit, int device) const;
  bool fits(ArrayRef<DeviceUse> use) const {
    return budgets.fit(totalsOf(use));
  }

private:
  struct Layer {
    int units[3] = {-1, -1, -1}; ///< By PlacementUnit::Kind.
  };
  struct Candidate {
    std::vector<int> unitDevices;
    StepPrediction::Prediction predicted;
    /// Seconds that the path's prices promise with divided layers; 0 without.
    double least = 0;
    int64_t gpuBytes = 0;
    bool leavesRoomOnHost = false; ///< For weights and caches.
  };
  /// An expert of a group with a router profile.
  struct HotExpert {
    int group;
    int64_t number;
    double saved; ///< Seconds saved per byte.
  };
  /// The units on GPUs, before they are divided among the GPUs.
  struct Selection {
    std::vector<bool> units;
    int64_t bytes = 0;
  };
  /// The GPUs to use, and each one's share of the bytes.
  struct Division {
    SmallVector<int> gpus, shares;
  };

  bool exceedsAll() const;
  std::vector<Candidate> families() const;
  std::vector<Candidate> paths() const;
  static void sort(std::vector<Candidate> &candidates);
  std::string describe(ArrayRef<Candidate> sorted) const;
  std::optional<Choice> fastest(ArrayRef<Candidate> sorted) const;
  Choice closest(std::vector<Candidate> candidates) const;
  Choice choiceOf(const Candidate &candidate) const;
  void addUnit(PlacementUnit::Kind kind, std::optional<int64_t> layer,
               int group);
  Assignment assign(ArrayRef<int> unitDevices) const;
  void addFamily(ArrayRef<Division> divisions,
                 std::vector<Candidate> &into) const;
  std::vector<int> divide(const Selection &selection,
                          const Division &division) const;
  double savedPerByte(int unit, int gpu) const;
  int64_t bytesOf(ArrayRef<int> groups,
                  function_ref<bool(const OpGroup &)> counts) const;
  void addCandidate(std::vector<int> unitDevices, double least,
                    std::vector<Candidate> &into) const;
  Chain makeChain() const;
  std::vector<int> uniform(int gpu, unsigned parts) const;
  ChainItem variantOf(const Layer &layer, int gpu, unsigned parts) const;
  ChainItem savedBy(ArrayRef<int> units, int gpu) const;
  std::vector<int> devicesOf(const ChainPath &path) const;
  bool lessenRoom(Chain &chain, const ChainPath &path) const;

  double savingsBound(ArrayRef<int> unitDevices) const;
  void fill(const Choice &whole, std::optional<Choice> &best) const;
  ExpertSplit splitOf(int group, int gpu, int64_t count) const;
  double secondsWithAll(const Choice &choice, int gpu,
                        ArrayRef<int> groups) const;
  std::optional<Choice> withFirst(const Choice &choice, int group,
                                  int gpu) const;
  void fillProfiledExperts(const Choice &whole,
                           std::optional<Choice> &best) const;
  std::optional<Choice> withProfiledExperts(const Choice &choice, int gpu,
                                            ArrayRef<HotExpert> byGain) const;
  bool takesProfiledExperts(ArrayRef<int> unitDevices) const;
  SmallVector<int> divisible(ArrayRef<int> unitDevices, int gpu) const;
  bool isDivisible(int group) const;

  const PlacementProblem &problem;
  const StepPrediction &times;
  moec::MemoryBudgets budgets;
  int host, gpuTotal;
  bool hasProfile; ///< Some group has a router profile.
  std::vector<PlacementUnit> unitList;
  std::vector<int> unitIndex;
  std::vector<Layer> layers;
  SmallVector<int> heads, embeddings; ///< Units.
  /// By group: if it belongs to no unit, it follows the device of these groups.
  std::vector<SmallVector<int, 2>> sources;
  /// Bytes that each device has in every option, and bytes counted in several
  /// units.
  std::vector<int64_t> fixedBytes;
  int64_t sharedBytes = 0;
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PLACEMENT_PLACEMENTSEARCH_H
