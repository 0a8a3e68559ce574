#include "passes/moe/placement/StepGraph.h"

#include "dialects/moe/ExpertFrequencies.h"
#include "dialects/moe/InstructionBuilders.h"
#include "passes/moe/graph/SliceExperts.h"
#include "passes/moe/kernels/OpSeconds.h"

#include <map>
#include <tuple>

using namespace mlir;
using namespace mlir::moe;
using moek::GemmInfo;
using moert::OperandRole;
using Form = Operand::Form;
using Kind = Operand::Kind;

StepGraphs::StepGraphs(const moec::TargetDesc &target, bool mayPack,
                       Streaming streaming, ArrayRef<func::FuncOp> functions,
                       std::function<int(Operation *)> groupOf)
    : target(target), mayPack(mayPack), streaming(streaming),
      groupOf(std::move(groupOf)), layouts(mayPack) {
  // A device gets the layouts that suit all phases, as if it had all weights.
  for (func::FuncOp function : functions)
    function.walk([&](LowerableOpInterface op) {
      Instructions instructions = op.getInstructions({});
      for (const moec::DeviceDesc &device : target.devices)
        for (const Instruction &instruction : existsOn(op, device)
                                                  ? ArrayRef(instructions.all())
                                                  : ArrayRef<Instruction>())
          for (Value weight : instruction.gemmWeights())
            layouts.addUse(weight, instruction, phaseOf(function), device);
    });
}

const GemmInfo *StepGraphs::gemmFor(Value weight, int device, PhaseAttr phase) {
  auto type = cast<RankedTensorType>(weight.getType());
  auto format = getFormat(type.getElementType());
  if (!format)
    return nullptr;
  const moec::DeviceDesc &desc = target.devices[size_t(device)];
  const int reader = readsHostLayout ? int(target.devices.size()) - 1 : device;
  auto [layout, isNew] = layoutOf.try_emplace({weight, reader});
  if (isNew)
    layout->second =
        layouts.choose(weight, target.devices[size_t(reader)]).layout;
  return chooseGemm(*format, layout->second, desc, phase.getMaxTokens());
}

double SharedSeconds::of(double share, int device, size_t piece) const {
  auto at = [&](size_t i) {
    const auto &pieces = seconds[i][size_t(device)];
    return piece < pieces.size() ? pieces[piece] : 0;
  };
  if (shares.size() == 1)
    return at(0);
  size_t next = 1;
  while (next + 1 < shares.size() && shares[next] < share)
    ++next;
  double width = shares[next] - shares[next - 1];
  double part = width > 0 ? (share - shares[next - 1]) / width : 1;
  return std::max(0.0, at(next - 1) + part * (at(next) - at(next - 1)));
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

struct StepGraphs::Builder {
  StepGraphs &all;
  StepGraph graph;
  llvm::DenseMap<Value, int> known; ///< Numbers of activations.
  /// Regions that are no values, by what they are: a kind, a pointer or layer,
  /// and a number.
  std::map<std::tuple<int, const void *, int64_t>, int> regions;
  std::vector<int64_t> regionBytes; ///< Of such regions, in the longest step.
  /// Of the current function.
  func::FuncOp function;
  PhaseAttr phase;
  TypicalStep step;
  std::vector<moec::Situation> situations;
  /// Nodes of experts, by what they have in common; see addShares().
  std::map<std::vector<const void *>, ptrdiff_t> shares;

  enum Kinds { kPlain, kCoded, kTemporary, kState, kTable, kList };

  explicit Builder(StepGraphs &all) : all(all) {}

  const moec::DeviceDesc &desc(int device) const {
    return all.target.devices[size_t(device)];
  }

  int other(Kinds kind, const void *of, int64_t number, int64_t bytes = 0) {
    auto [it, isNew] =
        regions.try_emplace({kind, of, number}, int(regionBytes.size()));
    if (isNew)
      regionBytes.push_back(bytes);
    return 2 * it->second + 1;
  }

  int valueRegion(Value value) {
    if (auto it = known.find(value); it != known.end())
      return 2 * it->second;
    return other(kPlain, value.getAsOpaquePointer(), 0); // A cache.
  }

  int addValue(Value value, int producer) {
    int64_t tokens = step.tokens;
    int64_t bytes = PlacementProblem::bytesOf(value, tokens);
    if (bytes == 0)
      return -1;
    int number = int(graph.values.size());
    known[value] = number;
    graph.values.push_back(
        {producer, double(bytes), PlacementProblem::bytesOf(value, 1)});
    return number;
  }

  void enter(func::FuncOp next, int64_t tokens) {
    function = next;
    phase = phaseOf(function);
    step = {tokens, typicalStep(phase).cached};
    situations.clear();
    shares.clear();
    for (const moec::DeviceDesc &device : all.target.devices)
      situations.push_back(situationOf(function, step, device));
  }

  /// Returns the region that an operand names; -1 for what never changes.
  int regionOf(Operation *op, const Instructions &list, const Operand &operand,
               bool isCoded, int device) {
    switch (operand.kind()) {
    case Kind::Value:
      return isCoded ? other(kCoded, operand.value().getAsOpaquePointer(), 0)
                     : valueRegion(operand.value());
    case Kind::Temporary: {
      unsigned index = operand.temporary().index;
      const BufferShape &shape = list.buffers()[index];
      if (shape.result && !isCoded)
        return valueRegion(shape.result);
      for (const auto &lists : list.expertLists()) {
        if (lists.offsets.index == index)
          return listRegion(lists.ids, 0, shape);
        if (lists.slots.index == index)
          return listRegion(lists.ids, 1, shape);
      }
      return other(isCoded ? kCoded : kTemporary, op, index,
                   bytesOf(shape, shape.encoding));
    }
    case Kind::State: {
      auto state = cast<StateOpInterface>(op);
      return other(kState, nullptr,
                   16 * state.getStateLayer() + state.getStatePart());
    }
    case Kind::RopeTable:
      return other(kTable, operand.attribute().getAsOpaquePointer(), 0);
    case Kind::ExpertOffsets:
    case Kind::ExpertSlots:
      return other(kList, operand.value().getAsOpaquePointer(),
                   operand.kind() == Kind::ExpertSlots);
    default:
      return -1;
    }
  }

  int listRegion(Value ids, int which, const BufferShape &shape) {
    return other(kList, ids.getAsOpaquePointer(), which,
                 bytesOf(shape, shape.encoding));
  }

  int64_t bytesOf(const BufferShape &shape, moek::Encoding encoding) const {
    return (shape.rowsPerToken * phase.getMaxTokens() + shape.fixedRows) *
           moek::encodedRowBytes(encoding, shape.cols);
  }

  /// Returns the bytes of an operand in the longest step; see plan-replicate.
  int64_t bytesOf(const Instructions &list, const Operand &operand,
                  bool isCoded, int device) {
    moek::Encoding coded = encodingOn(desc(device).isa, phase.getMaxTokens());
    switch (operand.kind()) {
    case Kind::Value: {
      auto type = cast<RankedTensorType>(operand.value().getType());
      if (isWeight(operand.value()))
        return getTensorBytes(type);
      if (isCoded)
        return phase.getMaxTokens() *
               moek::encodedRowBytes(coded, type.getShape().back());
      return PlacementProblem::bytesOf(operand.value(), phase.getMaxTokens());
    }
    case Kind::Temporary: {
      const BufferShape &shape = list.buffers()[operand.temporary().index];
      return bytesOf(shape, isCoded ? coded : shape.encoding);
    }
    case Kind::RopeTable:
      return phase.getMaxTokens() * 4 *
             cast<RopeAttr>(operand.attribute()).getDim();
    case Kind::RopeFrequencies:
      return 2 * cast<RopeAttr>(operand.attribute()).getDim();
    case Kind::ExpertMap:
      return 4 *
             int64_t(
                 cast<ExpertSliceAttr>(operand.attribute()).getMap().size());
    case Kind::Constant:
      return 4 * int64_t(cast<DenseF64ArrayAttr>(operand.attribute()).size());
    case Kind::ExpertOffsets:
    case Kind::ExpertSlots:
      return regionBytes[size_t(other(kList,
                                      operand.value().getAsOpaquePointer(),
                                      operand.kind() == Kind::ExpertSlots) /
                                2)];
    default:
      return 0;
    }
  }

  /// Columns and rows per token of what a Quantize encodes.
  std::pair<double, double> shapeOf(const Instructions &list,
                                    const Operand &operand) {
    if (operand.kind() == Kind::Temporary) {
      const BufferShape &shape = list.buffers()[operand.temporary().index];
      return {double(shape.cols), double(shape.rowsPerToken)};
    }
    auto type = cast<RankedTensorType>(operand.value().getType());
    return {double(type.getRank() == 1 ? 1 : type.getShape().back()), 1};
  }

  /// Returns the op's instructions on a device; none if it lacks kernels.
  Pieces piecesOf(LowerableOpInterface op, int device) {
    const moec::DeviceDesc &desc = this->desc(device);
    const moec::Situation &situation = situations[size_t(device)];
    Execution execution{step.tokens, step.cached};
    (desc.kind == moec::DeviceKind::Cpu ? execution.cores
                                        : execution.multiprocessors) =
        desc.cores;
    Instructions list = op.getInstructions(execution);
    SmallVector<const GemmInfo *> gemms;
    for (const Instruction &instruction : list)
      for (Value weight : instruction.gemmWeights()) {
        gemms.push_back(all.gemmFor(weight, device, phase));
        if (!gemms.back())
          return {};
      }
    for (auto [ids, offsets, slots] : list.expertLists())
      if (auto it = known.find(ids); it != known.end())
        graph.values[size_t(it->second)].lists = {
            listRegion(ids, 0, list.buffers()[offsets.index]),
            listRegion(ids, 1, list.buffers()[slots.index])};
    Pieces pieces;
    ArrayRef<const GemmInfo *> rest = gemms;
    for (const Instruction &instruction : withQuantize(list, gemms)) {
      auto own = rest.take_front(instruction.gemmWeights().size());
      rest = rest.drop_front(own.size());
      const moek::KernelInfo *kernel = chooseKernel(instruction.op, desc.isa);
      if (!kernel)
        return {};
      if (instruction.omitted)
        continue;
      bool readsCodes = !own.empty() && moek::isA8(own.front()->activation);
      pieces.push_back(pieceOf(op, list, instruction, {kernel, own}, readsCodes,
                               device, situation));
    }
    if (!pieces.empty() && isa<ResidualOpInterface>(op.getOperation()) &&
        !list.all().empty())
      addResidualSeconds(op, list.all().back(), gemms, device, pieces.back());
    return pieces;
  }

  void addResidualSeconds(LowerableOpInterface op, const Instruction &last,
                          ArrayRef<const GemmInfo *> gemms, int device,
                          Piece &piece) {
    const moec::DeviceDesc &desc = this->desc(device);
    size_t count = last.gemmWeights().size();
    moec::KernelChoice kernels{chooseKernel(last.op, desc.isa),
                               gemms.take_back(count)};
    const moec::Situation &situation = situations[size_t(device)];
    // As in dialects/moe/Rows.cpp.
    InstructionWork adding;
    adding.activationBytes =
        double(PlacementProblem::bytesOf(op->getResult(0), step.tokens));
    adding.ops = adding.activationBytes / 4;
    InstructionWork work = last.work;
    work.activationBytes += adding.activationBytes;
    work.ops += adding.ops;
    piece.residualSeconds =
        moec::instructionSeconds(last.op, work, kernels, situation, desc) -
        piece.seconds;
    if (const moek::KernelInfo *add = chooseKernel(moek::OpCode::Add, desc.isa))
      piece.addSeconds = moec::instructionSeconds(moek::OpCode::Add, adding,
                                                  {add, {}}, situation, desc);
  }

  Piece pieceOf(Operation *op, const Instructions &list,
                const Instruction &instruction,
                const moec::KernelChoice &kernels, bool readsCodes, int device,
                const moec::Situation &situation) {
    Piece piece;
    InstructionWork work = instruction.work;
    if (instruction.op == moek::OpCode::Quantize) {
      auto [cols, rows] = shapeOf(list, instruction.operands.back());
      work.activationBytes = 5 * cols * rows * double(situation.tokens);
    }
    piece.seconds = moec::instructionSeconds(instruction.op, work, kernels,
                                             situation, desc(device));
    piece.isLarge = !kernels.gemms.empty();
    bool isSmall =
        desc(device).kind == moec::DeviceKind::Cpu && phase.getMaxTokens() <= 8;
    int64_t bytes = 0;
    for (auto [operand, spec] :
         llvm::zip_equal(instruction.operands, instruction.spec().operands)) {
      if (operand.kind() == Kind::Absent)
        continue;
      bool isCoded = operand.form() == Form::Quantized ||
                     (operand.form() == Form::Activation && readsCodes);
      bool isCache = operand.kind() == Kind::State ||
                     (operand.kind() == Kind::Value &&
                      isa<KvType>(operand.value().getType()));
      isSmall &= !spec.gemm && !isCache;
      if (isSmall)
        bytes += bytesOf(list, operand, isCoded, device);
      if (spec.role == OperandRole::Weight ||
          spec.role == OperandRole::Constant)
        continue;
      int region = regionOf(op, list, operand, isCoded, device);
      if (region < 0)
        continue;
      bool writes = spec.role == OperandRole::Write ||
                    spec.role == OperandRole::ReadWrite ||
                    spec.role == OperandRole::KvWrite;
      piece.uses.push_back({region, writes});
      bool isShared = instruction.op == moek::OpCode::Quantize ||
                      instruction.op == moek::OpCode::RopeTable;
      if (writes && isShared)
        piece.makes = region;
    }
    piece.isSmall = isSmall && bytes <= 64 * 1024;
    return piece;
  }

  std::vector<Pieces> piecesOf(LowerableOpInterface op) {
    std::vector<Pieces> pieces;
    for (int i = 0; i < int(all.target.devices.size()); ++i) {
      // moe-fuse decides this for the device that the op gets.
      bool fuses = canFuseGateUp(op, desc(i));
      auto setFused = [&](bool fused) {
        if (auto ffn = dyn_cast<FfnOp>(op.getOperation()))
          ffn.setFused(fused);
        if (auto experts = dyn_cast<ExpertsOp>(op.getOperation()))
          experts.setFused(fused);
      };
      if (fuses)
        setFused(true);
      pieces.push_back(piecesOf(op, i));
      if (fuses)
        setFused(false);
    }
    return pieces;
  }

  void addChoice(AlternativesOp op) {
    StepGraph::Choice choice{addValue(op.getResult(), -1), {}};
    for (Value way : op.getWays())
      choice.ways.push_back(known.lookup(way));
    graph.choices.push_back(std::move(choice));
  }

  /// Describes experts that are copied to a GPU for the step.
  void addStreamed(ExpertsOp op, const Cost &cost, StepGraph::Node &node) {
    if (phase.getKind() != PhaseKind::Prefill || all.streaming.from == 0)
      return;
    all.readsHostLayout = true;
    node.streamed = piecesOf(op);
    all.readsHostLayout = false;
    for (const moec::DeviceDesc &device : all.target.devices)
      node.copySeconds.push_back(device.kind == moec::DeviceKind::Cuda
                                     ? streamSeconds(op, cost,
                                                     all.streaming.pinned,
                                                     all.target.host(), device)
                                     : 0);
  }

  void addOp(Operation &op) {
    if (auto all = dyn_cast<AlternativesOp>(op))
      return addChoice(all);
    bool ends = op.hasTrait<OpTrait::IsTerminator>();
    int group = ends ? -1 : all.groupOf(&op);
    auto lowerable = dyn_cast<LowerableOpInterface>(op);
    if (!ends && (group < 0 || !lowerable))
      return;
    StepGraph::Node node;
    node.group = group;
    node.isSum = isa<AddOp>(op);
    node.isDeferred = op.hasAttr(kDeferredAttr);
    if (auto residual = dyn_cast<ResidualOpInterface>(op))
      node.takesResidual = !residual.getResidual();
    for (Value operand : op.getOperands())
      if (auto it = known.find(operand); it != known.end())
        node.reads.push_back(it->second);
    int number = int(graph.nodes.size());
    for (Value result : op.getResults())
      if (int value = addValue(result, number); value >= 0)
        node.results.push_back(value);
    if (!ends) {
      node.pieces = piecesOf(lowerable);
      if (node.isSum && graph.sumSeconds.empty())
        for (const Pieces &pieces : node.pieces)
          graph.sumSeconds.push_back(pieces.empty() ? 0
                                                    : pieces.front().seconds);
      Cost cost = cast<CostOpInterface>(op).getCost(step.tokens, step.cached);
      node.bytes = cost.weightBytes + cost.kvBytes;
      if (auto experts = dyn_cast<ExpertsOp>(op))
        addStreamed(experts, cost, node);
      for (auto [result, x] : lowerable.getInstructions({}).overwritten())
        if (known.contains(result) && known.contains(x))
          overwrites.push_back({known[result], known[x]});
    }
    graph.nodes.push_back(std::move(node));
  }

  /// Describes what `chosen` of an op's experts take, with `share` of the
  /// choices. As in sliceExperts(), nothing is known of them apart.
  void addShare(ExpertsOp op, int64_t chosen, double share,
                SharedSeconds &into) {
    int64_t experts = expertCount(op);
    SmallVector<Real> map(size_t(experts), Real(-1));
    for (int64_t i = 0; i < chosen; ++i)
      map[size_t(i)] = Real(double(i));
    op.setSliceAttr(
        ExpertSliceAttr::get(op.getContext(), experts, 0, chosen, share, map));
    into.shares.push_back(share);
    auto &seconds = into.seconds.emplace_back();
    for (const Pieces &pieces :
         piecesOf(cast<LowerableOpInterface>(op.getOperation())))
      llvm::transform(pieces, std::back_inserter(seconds.emplace_back()),
                      [](const Piece &piece) { return piece.seconds; });
  }

  /// Describes some divisions of an op's experts; others lie in between.
  void addShares(ExpertsOp op, StepGraph::Node &node) {
    constexpr int64_t kParts = 4;
    int64_t experts = expertCount(op);
    Attribute slice = op.getSliceAttr(), known = op->getAttr(kFrequenciesAttr);
    // Layers that only differ in their weights' bytes are alike.
    std::vector<const void *> key{
        op->getPropertiesAsAttribute().getAsOpaquePointer()};
    for (Type type : op->getOperandTypes())
      key.push_back(type.getAsOpaquePointer());
    if (!known) {
      auto [it, isNew] =
          shares.try_emplace(std::move(key), &node - graph.nodes.data());
      if (!isNew) {
        node.ofChosen = graph.nodes[size_t(it->second)].ofChosen;
        node.ofOthers = node.ofChosen;
        return;
      }
    }
    std::vector<std::pair<int64_t, double>> chosen;
    for (int64_t part = 0; part <= kParts; ++part) {
      int64_t count = std::max<int64_t>(1, experts * part / kParts);
      if (chosen.empty() || chosen.back().first != count)
        chosen.emplace_back(count, shareOf(op, hottestExperts(op, count)));
    }
    op->removeAttr(kFrequenciesAttr);
    for (auto [count, share] : chosen)
      addShare(op, count, share, node.ofChosen);
    for (auto [count, share] : llvm::reverse(chosen))
      if (known && count < experts)
        addShare(op, experts - count, 1 - share, node.ofOthers);
    op->setAttr(op.getSliceAttrName(), slice);
    if (known)
      op->setAttr(kFrequenciesAttr, known);
    else
      node.ofOthers = node.ofChosen;
  }

  /// Describes again what changes if a layer's experts are divided: these, and
  /// the op that chooses some of them.
  void addDivided(Block &block) {
    SmallVector<ExpertsOp> divided;
    for (ExpertsOp op : block.getOps<ExpertsOp>()) {
      auto shape = cast<RankedTensorType>(op.getGate().getType()).getShape();
      if (op.getSliceAttr() || shape[0] < 2 || all.groupOf(op) < 0)
        continue;
      op.setSliceAttr(ExpertSliceAttr::get(op.getContext(), shape[0], 0,
                                           shape[0], 1.0, {}));
      divided.push_back(op);
    }
    auto describe = [&](Operation *op, int experts) {
      for (Value result : op->getResults())
        if (auto it = known.find(result); it != known.end()) {
          StepGraph::Activation &value = graph.values[size_t(it->second)];
          StepGraph::Node &node = graph.nodes[size_t(value.producer)];
          value.experts = node.experts = experts;
          if (!node.divided.empty())
            continue;
          node.divided = piecesOf(cast<LowerableOpInterface>(op));
          if (auto divided = dyn_cast<ExpertsOp>(op))
            addShares(divided, node);
        }
    };
    for (ExpertsOp op : divided) {
      describe(op, all.groupOf(op));
      if (Operation *router = op.getIds().getDefiningOp();
          isa_and_nonnull<RouterOp, HashRouterOp>(router))
        describe(router, all.groupOf(op));
    }
    for (ExpertsOp op : divided)
      op.removeSliceAttr();
  }

  void addBody() {
    Block &block = function.getBody().front();
    for (Operation &op : block)
      addOp(op);
    addDivided(block);
  }

  std::vector<std::pair<int, int>> overwrites;
};

StepGraph StepGraphs::build(func::FuncOp function, int64_t tokens,
                            func::FuncOp second) {
  Builder builder(*this);
  StepGraph &graph = builder.graph;
  builder.enter(function, tokens);
  for (Value argument : function.getArguments())
    graph.arguments.push_back(builder.addValue(argument, -1));
  builder.addBody();
  func::FuncOp last = function;
  auto resultOf = [&](func::FuncOp of) {
    auto it =
        builder.known.find(of.getBody().front().getTerminator()->getOperand(0));
    return it == builder.known.end() ? -1 : it->second;
  };
  if (second) {
    graph.nodes.pop_back();
    graph.handedOver = resultOf(function);
    graph.second = int(graph.nodes.size());
    builder.enter(second, tokens);
    builder.known[second.getArgument(0)] = graph.handedOver;
    builder.addBody();
    last = second;
  }
  graph.result = resultOf(last);
  graph.others = int(builder.regionBytes.size());
  graph.maxTokens = phaseOf(function).getMaxTokens();
  graph.alias.assign(2 * graph.values.size(), -1);
  for (auto [result, x] : builder.overwrites)
    graph.alias[2 * size_t(result)] = 2 * x;
  return std::move(graph);
}
