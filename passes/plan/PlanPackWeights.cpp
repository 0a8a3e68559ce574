#include "mlir/IR/IRMapping.h"
#include "passes/plan/PlanPasses.h"
#include "runtime/base/CheckedMath.h"

#include <map>

namespace mlir::plan {
#define GEN_PASS_DEF_PLANPACKWEIGHTSPASS
#include "passes/plan/PlanPasses.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;

namespace {

/// Reads stream cache lines; an mmap of a huge page or more begins at a page,
/// so that it may be backed by huge pages.
constexpr uint64_t kAlignment = 64, kPage = 4096;
constexpr uint64_t kHugePage = uint64_t(2) << 20;

/// Returns the offset of a weight of `bytes` bytes that follows others.
uint64_t placeAfter(uint64_t end, uint64_t bytes) {
  return moert::alignUp(end, bytes >= kHugePage ? kPage : kAlignment);
}

/// A key of a weight's contents: weights of all programs in one context with
/// the same name, shape, layout and source bytes have equal keys.
using Key = std::vector<const void *>;

void addKey(Operation *op, Key &key) {
  key.push_back(op->getName().getAsOpaquePointer());
  key.push_back(op->getAttrDictionary().getAsOpaquePointer());
  for (Value operand : op->getOperands())
    addKey(operand.getDefiningOp(), key);
}

Key keyOf(Operation *op) {
  Key key;
  addKey(op, key);
  return key;
}

/// The file that all programs share; it grows with each weight.
class Packing {
public:
  explicit Packing(mlir::ModuleOp module)
      : builder(OpBuilder::atBlockBegin(module.getBody())),
        op(builder.create<PackingOp>(module.getLoc(), 0)) {
    builder.setInsertionPointToStart(&op.getBody().emplaceBlock());
  }

  /// Returns the offset of the contents of `entry`, and whether they were added
  /// now.
  std::pair<int64_t, bool> add(WeightEntryInterface entry) {
    auto [known, isNew] = offsets.try_emplace(keyOf(entry));
    if (!isNew)
      return {known->second, false};
    Value rows = copy(entry.getUnpacked());
    WeightShape shape = entry.getWeightShape();
    uint64_t bytes = uint64_t(shape.bytes());
    uint64_t offset = placeAfter(end, bytes);
    end = offset + bytes;
    builder.create<PackedOp>(entry.getLoc(), entry.getWeightName(), rows,
                             shape.layout, int64_t(offset));
    known->second = int64_t(offset);
    return {known->second, true};
  }

  int64_t finish() {
    op.setBytes(int64_t(end));
    if (end == 0)
      op.erase();
    return int64_t(end);
  }

private:
  /// Returns a copy of the weight in the packing's region, and copies the
  /// weights that it is computed from.
  Value copy(Value weight) {
    Operation *from = weight.getDefiningOp();
    Value &known = copies[keyOf(from)];
    if (known)
      return known;
    IRMapping mapping;
    for (Value operand : from->getOperands())
      mapping.map(operand, copy(operand));
    return known = builder.clone(*from, mapping)->getResult(0);
  }

  OpBuilder builder;
  PackingOp op;
  std::map<Key, Value> copies;
  std::map<Key, int64_t> offsets;
  uint64_t end = 0;
};

bool isToBePacked(WeightEntryInterface entry, bool all) {
  return (all || !entry.isInFile()) &&
         llvm::any_of(entry->getUsers(), llvm::IsaPred<InstOp>);
}

/// Returns the weights of model files whose rows, one after another, are those
/// of the entry; none if they are computed in another way.
SmallVector<Value> sourcesOf(WeightEntryInterface entry) {
  Value rows = entry.getUnpacked();
  if (rows.getDefiningOp<WeightOp>())
    return {rows};
  auto derived = rows.getDefiningOp<DerivedOp>();
  if (derived && isa<moe::StackAttr>(derived.getSource()))
    return derived.getParts();
  return {};
}

struct PlanPackWeights : plan::impl::PlanPackWeightsPassBase<PlanPackWeights> {
  using PlanPackWeightsPassBase::PlanPackWeightsPassBase;

  void runOnOperation() override {
    Packing packing(getOperation());
    SmallVector<FileOp> files;
    for (ProgramOp program : getOperation().getOps<ProgramOp>())
      if (FileOp file = pack(program, packing))
        files.push_back(file);
    int64_t bytes = packing.finish();
    for (FileOp file : files)
      file.setBytes(bytes);
  }

private:
  /// The program's entry for plan.weights, or null if it reads nothing of it.
  FileOp pack(ProgramOp program, Packing &packing) {
    Block &block = program.getBody().front();
    auto entries = llvm::to_vector(block.getOps<WeightEntryInterface>());
    if (llvm::none_of(entries,
                      [&](auto entry) { return isToBePacked(entry, all); }))
      return {};
    OpBuilder builder(entries.front());
    auto createFile = [&](FileKind kind) {
      return builder.create<FileOp>(program.getLoc(), kind, /*path=*/"",
                                    /*bytes=*/0, /*header_bytes=*/0,
                                    /*header_hash=*/"");
    };
    // A loaded file is the last one.
    auto file = createFile(FileKind::Packed);
    auto loaded = createFile(FileKind::Loaded);
    uint64_t loadedEnd = 0;
    for (WeightEntryInterface entry : entries) {
      if (!isToBePacked(entry, all))
        continue;
      WeightShape shape = entry.getWeightShape();
      SmallVector<Value> sources;
      if (load)
        sources = sourcesOf(entry);
      int64_t offset = 0;
      if (sources.empty()) {
        bool isNew = false;
        std::tie(offset, isNew) = packing.add(entry);
        (isNew ? numPacked : numShared) += 1;
      } else {
        offset = int64_t(placeAfter(loadedEnd, uint64_t(shape.bytes())));
        loadedEnd = uint64_t(offset + shape.bytes());
        loaded.setBytes(int64_t(loadedEnd));
        ++numLoaded;
      }
      builder.setInsertionPoint(entry);
      std::string_view format = moek::formatInfo(shape.format).name;
      auto stored = builder.create<WeightOp>(
          entry.getLoc(), entry.getWeightName(),
          sources.empty() ? file : loaded, sources, offset,
          StringRef(format.data(), format.size()), shape.outer, shape.rows,
          shape.cols, shape.matrixBytes(), shape.rowBytes(), shape.layout);
      entry->getResult(0).replaceUsesWithIf(
          stored.getResult(), [](OpOperand &use) {
            return isa<InstOp, ResidentOp>(use.getOwner());
          });
    }
    // In reverse order, users are erased before the definitions that they use.
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isa<WeightEntryInterface, FileOp>(op) && op.use_empty()) {
        if (&op == file)
          file = nullptr;
        op.erase();
      }
    return file;
  }
};

} // namespace

int64_t mlir::plan::loadableBytes(mlir::ModuleOp module) {
  int64_t most = 0;
  for (ProgramOp program : module.getOps<ProgramOp>()) {
    int64_t bytes = 0;
    for (auto entry : program.getBody().front().getOps<WeightEntryInterface>())
      if (isToBePacked(entry, /*all=*/false) && !sourcesOf(entry).empty())
        bytes += entry.getWeightShape().bytes();
    most = std::max(most, bytes);
  }
  return most;
}
