#include "passes/moe/placement/PlacedStep.h"

#include "passes/moe/kernels/OpSeconds.h"

#include <numeric>

using namespace mlir;
using namespace mlir::moe;

namespace {

/// An op of the placed function.
struct Placed {
  const StepGraph::Node *node; ///< Null for the sum of a divided layer.
  int device;
  SmallVector<int, 4> reads;
  int result = -1;   ///< The first result, or what replaces it.
  int residual = -1; ///< A value that it adds to its result.
  double share = 1;  ///< Of the node's work.
  bool isDivided = false, isSum = false, isGone = false;
  bool streams = false;    ///< Its experts are copied over the link.
  bool isOfOthers = false; ///< Has the experts that were not chosen.
};

class Placer {
public:
  Placer(const StepGraph &graph, const moec::TargetDesc &target,
         ArrayRef<int> assignment, ArrayRef<const ExpertSplit *> splitOf,
         ArrayRef<int> streamed)
      : graph(graph), target(target), assignment(assignment), splitOf(splitOf),
        streamed(streamed), devices(int(target.devices.size())),
        host(devices - 1), queues(graph.maxTokens > 8 ? 2 * devices : devices),
        regionAlias(graph.alias) {}

  PlacedStep run() {
    place();
    fuse();
    planCopies();
    emit();
    return schedule();
  }

private:
  //===--------------------------------------------------------------------===//
  // Ops
  //===--------------------------------------------------------------------===//

  int newValue(const StepGraph::Activation &like) {
    extra.push_back({-1, like.bytes, like.bytesPerToken});
    regionAlias.append(2, -1);
    return int(valueCount()) - 1;
  }

  size_t valueCount() const { return graph.values.size() + extra.size(); }
  const StepGraph::Activation &valueOf(int number) const {
    size_t own = graph.values.size(), index = size_t(number);
    return index < own ? graph.values[index] : extra[index - own];
  }

  const ExpertSplit *splitFor(int group) const {
    return group < 0 ? nullptr : splitOf[size_t(group)];
  }

  void place() {
    placed.reserve(graph.nodes.size() + 16);
    for (const StepGraph::Node &node : graph.nodes) {
      const ExpertSplit *split = splitFor(node.group);
      int device = node.group < 0 ? host : assignment[size_t(node.group)];
      if (device == kAbsent)
        continue;
      bool streams = node.group >= 0 && !streamed.empty() &&
                     streamed[size_t(node.group)] != kAbsent;
      if (streams)
        device = streamed[size_t(node.group)];
      int result = node.results.empty() ? -1 : node.results.front();
      if (!split || node.experts != node.group) {
        placed.push_back({&node,
                          split && !node.isDeferred ? split->device : device,
                          node.reads, result, -1, 1,
                          splitFor(node.experts) != nullptr, node.isSum});
        placed.back().streams = streams;
        continue;
      }
      int first = newValue(graph.values[size_t(result)]);
      placed.push_back(
          {&node, split->device, node.reads, first, -1, split->share, true});
      // The next layer adds what is deferred, on the device of the rest.
      int rest =
          node.isDeferred ? result : newValue(graph.values[size_t(result)]);
      placed.push_back(
          {&node, device, node.reads, rest, -1, 1 - split->share, true});
      placed.back().streams = streams;
      placed.back().isOfOthers = true;
      if (!node.isDeferred)
        placed.push_back({nullptr,
                          split->device,
                          {first, rest},
                          result,
                          -1,
                          1,
                          false,
                          true});
    }
    valueAlias.assign(valueCount(), -1);
    producers.assign(valueCount(), -1);
    useCounts.assign(valueCount(), 0);
    for (const StepGraph::Choice &choice : graph.choices)
      valueAlias[size_t(choice.value)] = wayOf(choice);
    for (auto [index, op] : llvm::enumerate(placed)) {
      for (int read : op.reads)
        ++useCounts[size_t(find(read))];
      if (op.result >= 0)
        producers[size_t(op.result)] = int(index);
      if (op.node)
        for (int other : ArrayRef(op.node->results).drop_front(op.result >= 0))
          producers[size_t(other)] = int(index);
    }
  }

  /// Returns the value that a choice is in this placement.
  int wayOf(const StepGraph::Choice &choice) const {
    return *llvm::find_if(choice.ways, [&](int way) {
      int node = graph.values[size_t(way)].producer;
      return node >= 0 &&
             assignment[size_t(graph.nodes[size_t(node)].group)] != kAbsent;
    });
  }

  int find(int value) const {
    while (valueAlias[size_t(value)] >= 0)
      value = valueAlias[size_t(value)];
    return value;
  }

  int deviceOf(int value) const {
    int producer = producers[size_t(value)];
    return producer < 0 ? host : placed[size_t(producer)].device;
  }

  //===--------------------------------------------------------------------===//
  // Sums, as in graph/Fuse.cpp
  //===--------------------------------------------------------------------===//

  /// Returns the op that can add `addend` to its contribution to `sum`, or -1.
  int takerOf(int sum, int addend, int device) const {
    int producer = producers[size_t(sum)];
    if (producer < 0 || useCounts[size_t(sum)] != 1)
      return -1;
    const Placed &op = placed[size_t(producer)];
    if (op.device != device)
      return -1;
    if (op.isSum) {
      for (int summand : llvm::reverse(op.reads))
        if (int taker = takerOf(find(summand), addend, device); taker >= 0)
          return taker;
      return -1;
    }
    if (!op.node->takesResidual)
      return -1;
    if (op.residual >= 0)
      return takerOf(find(op.residual), addend, device);
    return producers[size_t(addend)] < producer ? producer : -1;
  }

  bool join(Placed &add, int sum, int addend) {
    if (producers[size_t(addend)] >= 0 && deviceOf(addend) != add.device)
      return false;
    int taker = takerOf(sum, addend, add.device);
    if (taker < 0)
      return false;
    placed[size_t(taker)].residual = addend;
    valueAlias[size_t(add.result)] = sum;
    useCounts[size_t(sum)] = useCounts[size_t(add.result)];
    return add.isGone = true;
  }

  void fuse() {
    bool changed = true;
    while (changed) {
      changed = false;
      for (Placed &op : placed)
        if (op.isSum && !op.isGone) {
          int lhs = find(op.reads.front()), rhs = find(op.reads.back());
          changed |= join(op, lhs, rhs) || join(op, rhs, lhs);
        }
    }
  }

  //===--------------------------------------------------------------------===//
  // Copies, as in graph/InsertTransfers.cpp
  //===--------------------------------------------------------------------===//

  struct CopyOf {
    int value, to;
    int next; ///< In a list; -1 at its end.
  };

  void forReads(const Placed &op, function_ref<void(int)> visit) const {
    for (int read : op.reads)
      visit(find(read));
    if (op.residual >= 0)
      visit(find(op.residual));
  }

  void planCopies() {
    lastUse.assign(valueCount(), -1);
    after.assign(placed.size(), -1);
    before.assign(placed.size(), -1);
    std::vector<bool> known(valueCount() * size_t(devices));
    for (auto [index, op] : llvm::enumerate(placed)) {
      if (op.isGone)
        continue;
      forReads(op, [&, index = index](int value) {
        size_t there = size_t(value) * size_t(devices) + size_t(op.device);
        int producer = producers[size_t(value)];
        bool isLateThere = producer >= 0 && isLate(placed[size_t(producer)]);
        // Another device reads a copy, which is made early.
        if (deviceOf(value) == op.device || (isLateThere && !known[there]))
          lastUse[size_t(value)] = int(index);
        if (deviceOf(value) == op.device || known[there])
          return;
        known[there] = true;
        // After its producer or, of a deferred op, before its first user.
        if (producer < 0)
          addCopy(ofArguments, value, op.device);
        else if (isLateThere)
          addCopy(before[index], value, op.device);
        else
          addCopy(after[size_t(producer)], value, op.device);
      });
    }
  }

  /// Puts a copy before the others of a list: each is inserted right after its
  /// value.
  void addCopy(int &list, int value, int to) {
    copies.push_back({value, to, list});
    list = int(copies.size()) - 1;
  }

  static bool isLate(const Placed &op) {
    return op.node && op.node->isDeferred;
  }

  //===--------------------------------------------------------------------===//
  // Instructions, as in passes/lower
  //===--------------------------------------------------------------------===//

  /// Returns the number of a region on a device.
  int regionOn(int region, int device) {
    while (true) {
      if (region % 2 == 0) {
        int value = find(region / 2);
        region = regionAlias[size_t(2 * value)];
        if (region >= 0)
          continue;
        region = 2 * value;
      }
      int &number = regionNumbers[size_t(region * devices + device)];
      if (number < 0) {
        number = regions++;
        madeRegions.push_back(false);
      }
      return number;
    }
  }

  /// Adds an instruction with the regions in `uses`.
  void addStep(moec::Step step, double seconds, double bytes) {
    step.uses = ArrayRef(uses).copy(memory);
    uses.clear();
    step.onGpu = target.devices[size_t(step.queue % devices)].kind ==
                 moec::DeviceKind::Cuda;
    steps.push_back(step);
    tasks.push_back({step.queue, seconds, {}, false, bytes});
    groups.push_back(group);
  }

  void emitCopies(int list, bool isLate) {
    for (; list >= 0; list = copies[size_t(list)].next) {
      CopyOf copy = copies[size_t(list)];
      const StepGraph::Activation &value = valueOf(copy.value);
      int from = deviceOf(copy.value), gpu = copy.to == host ? from : copy.to;
      double seconds =
          moec::copySeconds(value.bytes, target.devices[size_t(from)],
                            target.devices[size_t(copy.to)]);
      SmallVector<int, 3> parts{2 * copy.value};
      if (!splitFor(value.experts))
        llvm::append_range(parts, value.lists);
      ++result.copies;
      result.copySeconds += seconds;
      for (int region : parts) {
        moec::Step step;
        // As in PlanTables::queue().
        step.queue = gpu + queues - devices;
        step.isLarge = region % 2 == 0 && value.bytesPerToken > 4096;
        step.runsLast = isLate;
        uses = {{regionOn(region, from), false},
                {regionOn(region, copy.to), true}};
        copied.push_back(uses[from == gpu].region);
        addStep(step, seconds / double(parts.size()), 0);
      }
    }
  }

  /// Lets the result overwrite the summand that it adds, if nothing reads that
  /// later; else a sum follows the op.
  bool overwritesResidual(const Placed &op, int index) {
    int residual = find(op.residual);
    if (producers[size_t(residual)] < 0 || lastUse[size_t(residual)] > index ||
        llvm::count_if(op.reads,
                       [&](int read) { return find(read) == residual; }) > 0)
      return false;
    regionAlias[size_t(2 * op.result)] = 2 * residual;
    return true;
  }

  void emitOp(const Placed &op, int index) {
    if (!op.node) {
      moec::Step step;
      step.queue = op.device;
      uses = {{regionOn(2 * op.reads.front(), op.device), false},
              {regionOn(2 * op.reads.back(), op.device), false},
              {regionOn(2 * op.result, op.device), true}};
      double seconds =
          graph.sumSeconds.empty() ? 0 : graph.sumSeconds[size_t(op.device)];
      return addStep(step, seconds, 0);
    }
    const StepGraph::Node &node = *op.node;
    if (node.group < 0)
      return;
    bool adds = op.residual >= 0 && !overwritesResidual(op, index);
    const auto &byDevice = op.streams ? node.streamed
                           : op.isDivided && !node.divided.empty()
                               ? node.divided
                               : node.pieces;
    const Pieces &pieces = byDevice[size_t(op.device)];
    if (pieces.empty() && !node.pieces[size_t(host)].empty())
      return emitNever(op);
    SmallVector<const Piece *, 8> own;
    double seconds = 0;
    const SharedSeconds &shared = op.isOfOthers ? node.ofOthers : node.ofChosen;
    bool isPart = op.isDivided && !shared.shares.empty() && !op.streams;
    for (auto [i, piece] : llvm::enumerate(pieces)) {
      if (piece.makes >= 0) {
        size_t made = size_t(regionOn(piece.makes, op.device));
        if (madeRegions[made])
          continue;
        madeRegions[made] = true;
      }
      own.push_back(&piece);
      seconds +=
          isPart ? shared.of(op.share, op.device, i) : op.share * piece.seconds;
    }
    if (op.residual >= 0 && !pieces.empty())
      seconds +=
          adds ? pieces.back().addSeconds : pieces.back().residualSeconds;
    if (op.streams)
      seconds =
          std::max(seconds, op.share * node.copySeconds[size_t(op.device)]);
    double parts = double(own.size() + adds);
    for (const Piece *piece : own) {
      moec::Step step;
      step.queue = op.device;
      step.isLarge = piece->isLarge;
      step.isSmall = piece->isSmall;
      step.runsLast = node.isDeferred;
      for (moec::RegionUse use : piece->uses) {
        int region = use.region;
        if (!node.results.empty() && region == 2 * node.results.front())
          region = 2 * op.result;
        uses.push_back({regionOn(region, op.device), use.writes});
      }
      if (piece == own.back() && op.residual >= 0 && !adds)
        uses.push_back({regionOn(2 * op.residual, op.device), false});
      addStep(step, seconds / parts, op.share * node.bytes / parts);
    }
    if (adds) {
      moec::Step step;
      step.queue = op.device;
      uses = {{regionOn(2 * op.residual, op.device), false},
              {regionOn(2 * op.result, op.device), true}};
      addStep(step, seconds / parts, 0);
    }
  }

  /// The device has no kernels for the op.
  void emitNever(const Placed &op) {
    moec::Step step;
    step.queue = op.device;
    for (int read : op.reads)
      uses.push_back({regionOn(2 * read, op.device), false});
    if (op.result >= 0)
      uses.push_back({regionOn(2 * op.result, op.device), true});
    addStep(step, kNeverSeconds, 0);
  }

  void emit() {
    size_t most = 2 * std::max(valueCount(), size_t(graph.others));
    regionNumbers.assign(most * size_t(devices), -1);
    steps.reserve(3 * placed.size());
    tasks.reserve(3 * placed.size());
    emitCopies(ofArguments, false);
    for (auto [index, op] : llvm::enumerate(placed)) {
      if (op.isGone)
        continue;
      emitCopies(before[index], true);
      group = op.node ? op.node->group : -1;
      emitOp(op, int(index));
      group = -1;
      emitCopies(after[index], isLate(op));
    }
  }

  PlacedStep schedule() {
    // What the host gets and gives, and what others copy, all workers share.
    if (graph.result >= 0)
      copied.push_back(regionOn(2 * graph.result, host));
    for (int argument : graph.arguments)
      if (argument >= 0)
        copied.push_back(regionOn(2 * argument, host));
    std::vector<bool> shared(size_t(regions), false);
    for (int region : copied)
      shared[size_t(region)] = true;
    std::vector<bool> perWorker = graph.maxTokens > 8
                                      ? std::vector<bool>(shared.size())
                                      : moec::regionsPerWorker(steps, shared);
    std::vector<int64_t> places = moec::placesOf(steps, queues, perWorker);
    SmallVector<int> sorted(steps.size());
    std::iota(sorted.begin(), sorted.end(), 0);
    llvm::stable_sort(sorted, [&](int a, int b) {
      return places[size_t(a)] < places[size_t(b)];
    });
    std::vector<moec::Step> inOrder;
    inOrder.reserve(steps.size());
    result.tasks.reserve(steps.size());
    std::vector<bool> works(size_t(devices), false);
    for (int number : sorted) {
      inOrder.push_back(steps[size_t(number)]);
      result.tasks.push_back(std::move(tasks[size_t(number)]));
      result.groups.push_back(groups[size_t(number)]);
      works[size_t(inOrder.back().queue % devices)] = true;
    }
    auto orderings = moec::orderingsOf(inOrder, queues, perWorker);
    for (auto [task, ordering] : llvm::zip_equal(result.tasks, orderings)) {
      task.barrier = ordering.barrier;
      task.after.assign(ordering.waits.begin(), ordering.waits.end());
    }
    for (int i = 0; i < queues; ++i)
      result.queues.push_back(moec::TaskQueue::of(i % devices, target));
    for (int i = 0; i < devices; ++i)
      if (works[size_t(i)])
        result.wakeSeconds += target.devices[size_t(i)].overheads.step;
    return std::move(result);
  }

  const StepGraph &graph;
  const moec::TargetDesc &target;
  ArrayRef<int> assignment;
  ArrayRef<const ExpertSplit *> splitOf;
  ArrayRef<int> streamed;
  int devices, host, queues;
  SmallVector<StepGraph::Activation, 0> extra; ///< Values of divided layers.
  SmallVector<int, 0> regionAlias;
  std::vector<Placed> placed;
  std::vector<int> valueAlias, producers, useCounts, lastUse; ///< By value.
  SmallVector<CopyOf> copies;
  int ofArguments = -1;           ///< A list of copies.
  std::vector<int> before, after; ///< Lists of copies, by op.
  /// Dense numbers of regions on devices, in the order of first use; -1: none.
  std::vector<int> regionNumbers;
  int regions = 0;
  std::vector<bool> madeRegions;
  SmallVector<int> copied;       ///< Regions from or to which others copy.
  llvm::BumpPtrAllocator memory; ///< Of the steps' uses.
  SmallVector<moec::RegionUse> uses;
  std::vector<moec::Step> steps;
  std::vector<moec::Task> tasks;
  std::vector<int> groups; ///< By task.
  int group = -1;          ///< Of the op that is emitted.
  PlacedStep result;
};

} // namespace

PlacedStep moe::placeStep(const StepGraph &graph,
                          const moec::TargetDesc &target,
                          ArrayRef<int> assignment,
                          ArrayRef<const ExpertSplit *> splitOf,
                          ArrayRef<int> streamed) {
  return Placer(graph, target, assignment, splitOf, streamed).run();
}
