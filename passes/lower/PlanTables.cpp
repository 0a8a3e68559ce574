#include "passes/lower/PlanTables.h"

#include "dialects/moe/Rope.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/moe/Support.h"
#include "passes/moe/graph/Rings.h"

using namespace mlir;
using namespace mlir::moe;

PlanTables::PlanTables(plan::ProgramOp program, const moec::TargetDesc &target,
                       ArrayAttr files, int64_t kvRows, int64_t stateRows)
    : program_(program), target_(target), files_(files), kvRows_(kvRows),
      stateRows_(stateRows),
      builder_(OpBuilder::atBlockEnd(&program.getBody().front())) {}

//===----------------------------------------------------------------------===//
// Devices and caches
//===----------------------------------------------------------------------===//

FailureOr<Value> PlanTables::device(Operation *op, StringRef name) {
  Value &entry = devices_[builder_.getStringAttr(name)];
  if (entry)
    return entry;
  const moec::DeviceDesc *desc = target_.find(name);
  if (!desc)
    return op->emitError() << "is on device '" << name
                           << "', which the target '" << target_.name
                           << "' does not have";
  auto kind = desc->kind == moec::DeviceKind::Cuda ? plan::DeviceKind::Cuda
                                                   : plan::DeviceKind::Cpu;
  moek::Isa isa =
      desc->kind == moec::DeviceKind::Cuda ? moek::Isa::Cuda : moek::Isa::Ref;
  std::string_view isaName = moek::isaName(isa);
  auto created = builder_.create<plan::DeviceOp>(
      op->getLoc(), name, kind, StringRef(isaName.data(), isaName.size()),
      desc->budgetBytes());
  if (desc->arch != 0)
    created.setArch(desc->arch);
  if (desc->kind == moec::DeviceKind::Cpu) {
    created.setCores(desc->cores);
    created.setNodes(desc->numaNodes);
    created.setNodeUse(plan::NodeUse(desc->nodeUse));
  } else {
    created.setMultiprocessors(desc->cores);
  }
  entry = created;
  isas_[entry] = isa;
  return entry;
}

Value PlanTables::queue(Value device, moek::OpCode op, int64_t maxTokens) {
  // A GPU copies beside its computations; but few rows take less time than the
  // events between two queues.
  constexpr int64_t kFewTokens = 8;
  auto kind = op == moek::OpCode::Copy && maxTokens > kFewTokens &&
                      device.getDefiningOp<plan::DeviceOp>().getKind() ==
                          plan::DeviceKind::Cuda
                  ? plan::QueueKind::Copy
                  : plan::QueueKind::Compute;
  Value &entry = queues_[{device, kind}];
  if (!entry)
    entry = builder_.create<plan::QueueOp>(device.getLoc(), kind, device);
  return entry;
}

void PlanTables::noteKernel(Value device, moek::Isa isa) {
  moek::Isa &best = isas_[device];
  if (isa <= best)
    return;
  best = isa;
  std::string_view name = moek::isaName(isa);
  device.getDefiningOp<plan::DeviceOp>().setIsa(
      StringRef(name.data(), name.size()));
}

FailureOr<Value> PlanTables::kv(CacheOpInterface op, Value device) {
  auto type = cast<KvType>(op.getCache().getType());
  auto element = plan::KvElement(type.getElement());
  int64_t layer = op.getCacheLayer(), width = type.getWidth();
  plan::KvOp &entry = caches_[{layer, op.getCachePart()}];
  int64_t ring = ringRowsOf(op);
  if (!entry)
    entry = builder_.create<plan::KvOp>(
        op->getLoc(), device, layer, element, ring ? stateRows_ : kvRows_,
        width * std::max<int64_t>(ring, 1), IntegerAttr(),
        /*per_sequence=*/ring > 0);
  auto before = KvType::get(op->getContext(),
                            entry.getWidth() / std::max<int64_t>(ring, 1),
                            moek::KvType(entry.getElement()));
  if (entry.getDevice() != device || before != type)
    return op->emitError() << "expected the cache of layer " << layer
                           << " on one device and as " << before
                           << " in every phase, found " << type
                           << " or another device";
  return Value(entry);
}

FailureOr<Value> PlanTables::state(StateOpInterface op, Value device) {
  int64_t layer = op.getStateLayer(), width = op.getStateWidth();
  plan::KvOp &entry = states_[{layer, op.getStatePart()}];
  if (!entry)
    entry = builder_.create<plan::KvOp>(op->getLoc(), device, layer,
                                        plan::KvElement::F32, stateRows_, width,
                                        IntegerAttr(), /*per_sequence=*/true);
  if (entry.getDevice() != device || entry.getWidth() != width)
    return userError(op,
                     "layer " + Twine(layer) + " keeps its state on one device",
                     "place it there in every phase");
  return Value(entry);
}

Value PlanTables::ropeFrequencies(RopeAttr rope) {
  Value &entry = frequencies_[rope];
  if (entry)
    return entry;
  std::string name = "rope.inv_freq";
  if (frequencies_.size() > 1)
    name += "." + std::to_string(frequencies_.size() - 1);
  SmallVector<float> values(ropeInvFreq(rope));
  entry = builder_.create<plan::ConstantOp>(program_.getLoc(), name, values);
  return entry;
}

Value PlanTables::constant(StringRef name, ArrayRef<Real> values) {
  Value &entry = constants_[name];
  if (!entry)
    entry = builder_.create<plan::ConstantOp>(
        program_.getLoc(), name,
        SmallVector<float>(values.begin(), values.end()));
  return entry;
}

//===----------------------------------------------------------------------===//
// Files and weights
//===----------------------------------------------------------------------===//

FailureOr<Value> PlanTables::file(Operation *op, int64_t index) {
  Value &entry = fileEntries_[index];
  if (entry)
    return entry;
  auto desc = index < int64_t(files_.size())
                  ? dyn_cast<DictionaryAttr>(files_[index])
                  : DictionaryAttr();
  auto path = desc ? desc.getAs<StringAttr>("path") : StringAttr();
  auto bytes = desc ? desc.getAs<IntegerAttr>("bytes") : IntegerAttr();
  auto header = desc ? desc.getAs<IntegerAttr>("header_bytes") : IntegerAttr();
  auto hash = desc ? desc.getAs<StringAttr>("header_hash") : StringAttr();
  if (!path || !bytes || !header || !hash)
    return op->emitError() << "expected path, bytes, header_bytes and "
                              "header_hash of file "
                           << index << " in " << kFilesAttr << " of "
                           << files_.size() << " files";
  entry = builder_.create<plan::FileOp>(op->getLoc(), plan::FileKind::Model,
                                        path.getValue(), bytes.getInt(),
                                        header.getInt(), hash.getValue());
  return entry;
}

FailureOr<Value> PlanTables::weight(Value weight, moek::Layout layout) {
  std::pair key(weightKey(weight), layout);
  if (Value entry = weights_.lookup(key))
    return entry;
  Operation *op = weight.getDefiningOp();
  FailureOr<Value> entry = failure();
  if (layout != moek::Layout::Gguf)
    entry = addPacked(weight, layout);
  else if (auto reference = dyn_cast<WeightOp>(op))
    entry = addReference(reference);
  else if (auto split = dyn_cast<SplitKvBOp>(op))
    entry = addSplit(split, weight == split.getKey());
  else if (auto folded = dyn_cast<FoldQueryOp>(op))
    entry = addFolded(folded);
  else if (auto transposed = dyn_cast<TransposeOp>(op))
    entry = addTransposed(transposed);
  else if (auto slice = dyn_cast<SliceOp>(op))
    entry = addSlice(slice);
  else if (auto experts = dyn_cast<SliceExpertsOp>(op))
    entry = addExperts(experts);
  else if (auto stack = dyn_cast<StackOp>(op))
    entry = addStack(stack);
  else
    return op->emitError("is no source of weights");
  if (succeeded(entry))
    weights_[key] = *entry;
  return entry;
}

namespace {
/// A weight tensor as outer matrices.
struct Matrices {
  int64_t outer = 1, rows = 1, cols = 1;
  moek::Format format;
  StringRef formatName;

  explicit Matrices(Value weight) {
    auto type = cast<RankedTensorType>(weight.getType());
    ArrayRef<int64_t> shape = type.getShape();
    cols = shape.back();
    if (shape.size() > 1)
      rows = shape[shape.size() - 2];
    for (int64_t size : shape.drop_back(std::min<size_t>(shape.size(), 2)))
      outer *= size;
    format = *getFormat(type.getElementType());
    std::string_view name = moek::formatInfo(format).name;
    formatName = StringRef(name.data(), name.size());
  }
  int64_t rowBytes() const { return moek::rowBytes(format, cols); }
};
} // namespace

FailureOr<Value> PlanTables::addReference(WeightOp op) {
  WeightRefAttr ref = op.getRef();
  FailureOr<Value> source = file(op, ref.getFile());
  if (failed(source))
    return failure();
  Matrices m(op.getResult());
  return Value(builder_.create<plan::WeightOp>(
      op.getLoc(), ref.getName().getValue(), *source, ref.getOffset(),
      m.formatName, m.outer, m.rows, m.cols, m.rows * m.rowBytes(),
      m.rowBytes()));
}

FailureOr<Value> PlanTables::addSplit(SplitKvBOp op, bool isKey) {
  auto whole = op.getWeight().getDefiningOp<WeightOp>();
  if (!whole)
    return op.emitError("expected the operand to be a moe.weight");
  WeightRefAttr ref = whole.getRef();
  FailureOr<Value> source = file(op, ref.getFile());
  if (failed(source))
    return failure();
  Matrices key(op.getKey()), value(op.getValue());
  const Matrices &part = isKey ? key : value;
  int64_t rowBytes = part.rowBytes();
  int64_t offset = ref.getOffset() + (isKey ? 0 : key.rows * rowBytes);
  return Value(builder_.create<plan::WeightOp>(
      op.getLoc(),
      (ref.getName().getValue() + (isKey ? ".keys" : ".values")).str(), *source,
      offset, part.formatName, part.outer, part.rows, part.cols,
      (key.rows + value.rows) * rowBytes, rowBytes));
}

FailureOr<Value> PlanTables::addSlice(SliceOp op) {
  auto whole = op.getWeight().getDefiningOp<WeightOp>();
  if (!whole)
    return op.emitError("expected the operand to be a moe.weight");
  WeightRefAttr ref = whole.getRef();
  FailureOr<Value> source = file(op, ref.getFile());
  if (failed(source))
    return failure();
  Matrices from(op.getWeight()), part(op.getResult());
  bool isVector = cast<RankedTensorType>(op.getType()).getRank() == 1;
  int64_t begin = op.getBegin(), rowBytes = part.rowBytes();
  int64_t skipped =
      isVector ? int64_t(moek::rowBytes(part.format, begin)) : begin * rowBytes;
  std::string name =
      ref.getName().getValue().str() + "." + std::to_string(begin);
  return Value(builder_.create<plan::WeightOp>(
      op.getLoc(), name, *source, ref.getOffset() + skipped, part.formatName,
      part.outer, part.rows, part.cols, from.rows * rowBytes, rowBytes));
}

FailureOr<Value> PlanTables::addExperts(SliceExpertsOp op) {
  FailureOr<Value> whole = failure();
  if (auto rows = op.getWeight().getDefiningOp<SliceOp>())
    whole = addSlice(rows);
  else if (auto reference = op.getWeight().getDefiningOp<WeightOp>())
    whole = addReference(reference);
  else
    return op.emitError("expected the operand to be a moe.weight or moe.slice");
  if (failed(whole))
    return failure();
  auto entry = whole->getDefiningOp<plan::WeightOp>();
  int64_t begin = op.getBegin(), count = op.getType().getDimSize(0);
  entry.setName(
      (entry.getName() + "." + Twine(begin) + "-" + Twine(begin + count - 1))
          .str());
  entry.setOffset(entry.getOffset() + begin * entry.getOuterStride());
  entry.setOuter(count);
  return whole;
}

FailureOr<Value> PlanTables::addStack(StackOp op) {
  SmallVector<Value> parts;
  for (Value weight : op.getWeights()) {
    FailureOr<Value> part = this->weight(weight);
    if (failed(part))
      return failure();
    parts.push_back(*part);
  }
  Matrices m(op.getResult());
  StringRef first = parts.front().getDefiningOp<plan::WeightOp>().getName();
  // Views of one weight are named after it.
  Operation *source = op.getWeights().front().getDefiningOp();
  std::string name = isa<SliceOp, SliceExpertsOp>(source)
                         ? (first.rsplit('.').first + ".chosen").str()
                         : (first + ".stacked").str();
  return Value(builder_.create<plan::StackOp>(
      op.getLoc(), name, parts, m.formatName, m.outer, m.rows, m.cols));
}

FailureOr<Value> PlanTables::addFolded(FoldQueryOp op) {
  FailureOr<Value> wq = weight(op.getWq()), wk = weight(op.getWk());
  if (failed(wq) || failed(wk))
    return failure();
  Matrices m(op.getResult());
  std::string name =
      (wq->getDefiningOp<plan::WeightOp>().getName() + ".folded").str();
  return Value(builder_.create<plan::FoldQueryOp>(
      op.getLoc(), name, *wq, *wk, m.formatName, m.outer, m.rows, m.cols,
      op.getHeads(), op.getNope(), op.getRope(), op.getLatent(),
      op.getKTransposed()));
}

FailureOr<Value> PlanTables::addTransposed(TransposeOp op) {
  FailureOr<Value> from = weight(op.getWeight());
  if (failed(from))
    return failure();
  Matrices m(op.getResult());
  std::string name =
      (from->getDefiningOp<plan::WeightOp>().getName() + ".transposed").str();
  return Value(builder_.create<plan::TransposeOp>(
      op.getLoc(), name, *from, m.formatName, m.outer, m.rows, m.cols));
}

FailureOr<Value> PlanTables::addPacked(Value weight, moek::Layout layout) {
  FailureOr<Value> source = this->weight(weight);
  if (failed(source))
    return failure();
  Operation *op = source->getDefiningOp();
  return Value(builder_.create<plan::PackOp>(
      weight.getLoc(), op->getAttrOfType<StringAttr>("name"), *source,
      plan::Layout(layout)));
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

void PlanTables::sort() {
  // The order of the tables in plan.fbs, but with what phases use before them.
  auto rank = [](Operation &op) {
    return isa<plan::DeviceOp>(op)  ? 0
           : isa<plan::QueueOp>(op) ? 1
           : isa<plan::FileOp>(op)  ? 2
           : isa<plan::WeightOp, plan::FoldQueryOp, plan::TransposeOp,
                 plan::StackOp, plan::PackOp>(op)
               ? 3
           : isa<plan::ConstantOp>(op)  ? 4
           : isa<plan::KvOp>(op)        ? 5
           : isa<plan::TokenizerOp>(op) ? 6
           : isa<plan::NoteOp>(op)      ? 7
           : isa<plan::ExplainOp>(op)   ? 8
                                        : 9;
  };
  Block &block = program_.getBody().front();
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    ops.push_back(&op);
  llvm::stable_sort(
      ops, [&](Operation *a, Operation *b) { return rank(*a) < rank(*b); });
  for (Operation *op : ops)
    op->moveBefore(&block, block.end());
}
