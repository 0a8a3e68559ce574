#include "passes/lower/PlanTables.h"

#include "compiler/Machine/CostModel/Memories.h"
#include "dialects/moe/Rope.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/moe/Support.h"
#include "passes/moe/graph/Rings.h"

using namespace mlir;
using namespace mlir::moe;

PlanTables::PlanTables(plan::ProgramOp program, const moec::TargetDesc &target,
                       ArrayAttr files, int64_t kvRows, int64_t stateRows)
    : program_(program), weights_(program->getParentOfType<ModuleOp>()),
      target_(target), files_(files), kvRows_(kvRows), stateRows_(stateRows),
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
      moec::MemoryBudgets(target_).of(size_t(desc - target_.devices.data())));
  if (desc->arch != 0)
    created.setArch(desc->arch);
  if (desc->kind == moec::DeviceKind::Cpu) {
    created.setCores(desc->cores);
    created.setNodes(desc->numaNodes);
    created.setNodeUse(plan::NodeUse(desc->nodeUse));
  } else {
    created.setMultiprocessors(desc->cores);
    created.setSharesMemory(desc->sharesMemory);
  }
  entry = created;
  isas_[entry] = isa;
  return entry;
}

Value PlanTables::queue(Value device, moek::OpCode op, int64_t maxTokens) {
  // A GPU overlaps copies with computations, but a copy of few rows takes less
  // time than the events between two queues.
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
        /*row_per_sequence=*/ring > 0);
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
    entry = builder_.create<plan::KvOp>(
        op->getLoc(), device, layer, plan::KvElement::F32, stateRows_, width,
        IntegerAttr(), /*row_per_sequence=*/true);
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
  return entry(weights_.of(weight), layout);
}

FailureOr<Value> PlanTables::entry(WeightOp weight, moek::Layout layout) {
  std::pair key(weight.getSymNameAttr(), layout);
  if (Value known = entries_.lookup(key))
    return known;
  FailureOr<Value> added = failure();
  if (layout != moek::Layout::Gguf)
    added = addPacked(weight, layout);
  else if (std::optional<StoredBytes> bytes = weights_.locate(weight))
    added = addStored(weight, *bytes);
  else
    added = addDerived(weight);
  if (succeeded(added))
    entries_[key] = *added;
  return added;
}

static StringRef nameOf(moek::Format format) {
  std::string_view name = moek::formatInfo(format).name;
  return StringRef(name.data(), name.size());
}

FailureOr<Value> PlanTables::addStored(WeightOp weight,
                                       const StoredBytes &bytes) {
  FailureOr<Value> source = file(weight, bytes.file);
  if (failed(source))
    return failure();
  Matrices m(weight.getTensorType());
  return Value(builder_.create<plan::WeightOp>(
      weight.getLoc(), weight.getSymName(), *source, ValueRange(), bytes.offset,
      nameOf(m.format), m.outer, m.rows, m.cols, bytes.outerStride,
      bytes.rowStride));
}

FailureOr<Value> PlanTables::addDerived(WeightOp weight) {
  SmallVector<Value> parts;
  for (WeightOp part : weights_.partsOf(weight)) {
    FailureOr<Value> stored = entry(part);
    if (failed(stored))
      return failure();
    if (!stored->getDefiningOp<plan::WeightOp>())
      return weight.emitError()
             << "expected the parts of @" << weight.getSymName()
             << " to be in the model file, but packing computes @"
             << part.getSymName();
    parts.push_back(*stored);
  }
  Matrices m(weight.getTensorType());
  return Value(builder_.create<plan::DerivedOp>(
      weight.getLoc(), weight.getSymName(), weight.getSource(), parts,
      nameOf(m.format), m.outer, m.rows, m.cols));
}

FailureOr<Value> PlanTables::addPacked(WeightOp weight, moek::Layout layout) {
  FailureOr<Value> source = entry(weight);
  if (failed(source))
    return failure();
  return Value(builder_.create<plan::PackOp>(
      weight.getLoc(), weight.getSymName(), *source, plan::Layout(layout)));
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

void PlanTables::sort() {
  // The order is that of the tables in plan.fbs, except that entries which
  // phases use come before the phases.
  auto rank = [](Operation &op) {
    return isa<plan::DeviceOp>(op)               ? 0
           : isa<plan::QueueOp>(op)              ? 1
           : isa<plan::FileOp>(op)               ? 2
           : isa<plan::WeightEntryInterface>(op) ? 3
           : isa<plan::ConstantOp>(op)           ? 4
           : isa<plan::KvOp>(op)                 ? 5
           : isa<plan::TokenizerOp>(op)          ? 6
           : isa<plan::NoteOp>(op)               ? 7
           : isa<plan::ExplainOp>(op)            ? 8
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
