#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "passes/plan/PlanHazards.h"
#include "passes/plan/PlanPasses.h"
#include "runtime/base/CheckedMath.h"

namespace mlir::plan {
#define GEN_PASS_DEF_PLANALLOCATEPASS
#include "passes/plan/PlanPasses.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;

namespace {

/// Returns the bytes of private memory that each worker needs for `inst`, by
/// the formulas of kernels/Scratch.h.
int64_t scratchBytes(InstOp inst) {
  const moert::OpSpec &spec = *inst.getSpec();
  return spec.scratchBytes([&](std::string_view wanted) -> int64_t {
    for (auto [name, value] : llvm::zip(spec.ints, inst.getInts()))
      if (wanted == name)
        return value;
    llvm_unreachable("a parameter of the op's signature");
  });
}

/// The part of a phase during which a buffer is in use.
struct Lifetime {
  BufferOp buffer;
  int64_t bytes = 0;
  /// For each queue: `last` is the last instruction that uses the buffer;
  /// `known` is the least number of instructions that have ended when one
  /// begins that uses it.
  Clock last, known;
  /// Set if the caller fills the buffer before a step, or reads it afterwards.
  bool isInput = false, isOutput = false;
  int64_t offset = 0;

  void use(const Ordering &ordering) {
    last[ordering.queue] = ordering.position;
    for (auto [least, value] : llvm::zip_equal(known, ordering.known))
      least = std::min(least, value);
  }
  /// Returns whether all uses have ended before any use of `other` begins.
  bool isBefore(const Lifetime &other) const {
    return !isOutput && !other.isInput &&
           llvm::all_of_zip(last, other.known, [](int32_t use, int32_t ended) {
             return use <= ended;
           });
  }
  bool meets(const Lifetime &other) const {
    return !isBefore(other) && !other.isBefore(*this);
  }
};

/// Lifetimes that last until some more instructions of a queue have ended.
struct Held {
  SmallVector<unsigned> lifetimes;
  int left = 0; ///< Number of instructions that are still to end.
};

/// Returns for how many instructions after `inst` what it uses has to stay. A
/// GPU may combine the KV splits of some heads, and quantise the result, while
/// blocks of attention to other heads still run (kernels/cuda/Fuse.h).
int instructionsBeside(InstOp inst) {
  if (inst.getDevice().getDefiningOp<DeviceOp>().getKind() != DeviceKind::Cuda)
    return 0;
  return inst.getSpec()->op == moek::OpCode::Attention ? 2 : 0;
}

/// Memory that a device needs.
struct Needs {
  llvm::SetVector<Value> weights;
  llvm::DenseSet<Value> tables; ///< Weights whose rows are read from a file.
  int64_t kvBytes = 0, scratchBytes = 0, arenaBytes = 0, workerBytes = 0;
};

int64_t aligned(int64_t bytes) {
  return int64_t(moert::alignUp(uint64_t(bytes), moert::kRegionAlignment));
}

/// Returns the offset of the smallest gap that holds `lifetime` between the
/// placed lifetimes that are alive at the same time; the lowest of equal gaps.
int64_t findOffset(const Lifetime &lifetime,
                   ArrayRef<const Lifetime *> placedByOffset) {
  int64_t end = 0, best = -1, bestGap = INT64_MAX;
  for (const Lifetime *other : placedByOffset) {
    if (!other->meets(lifetime))
      continue;
    int64_t gap = other->offset - end;
    if (gap >= lifetime.bytes && gap < bestGap) {
      best = end;
      bestGap = gap;
    }
    end = std::max(end, other->offset + other->bytes);
  }
  return best >= 0 ? best : end;
}

/// Gives every lifetime an offset, the largest buffer first. Returns the peak.
int64_t place(MutableArrayRef<Lifetime> lifetimes) {
  SmallVector<Lifetime *> order;
  for (Lifetime &lifetime : lifetimes)
    order.push_back(&lifetime);
  llvm::stable_sort(order, [](const Lifetime *a, const Lifetime *b) {
    return a->bytes > b->bytes;
  });
  SmallVector<const Lifetime *> placed;
  int64_t peak = 0;
  for (Lifetime *lifetime : order) {
    lifetime->offset = findOffset(*lifetime, placed);
    peak = std::max(peak, lifetime->offset + lifetime->bytes);
    auto position = llvm::upper_bound(placed, lifetime,
                                      [](const Lifetime *a, const Lifetime *b) {
                                        return a->offset < b->offset;
                                      });
    placed.insert(position, lifetime);
  }
  return peak;
}

struct PlanAllocate : plan::impl::PlanAllocatePassBase<PlanAllocate> {
  using PlanAllocatePassBase::PlanAllocatePassBase;

  void runOnOperation() override {
    getOperation()->walk([&](ProgramOp program) { allocate(program); });
  }

private:
  /// How weights are streamed to devices.
  using StreamedWeights =
      llvm::DenseMap<std::pair<Value, Value>, ResidencyMode>;

  void allocate(ProgramOp program) {
    StreamedWeights streamed;
    for (ResidentOp resident : program.getBody().getOps<ResidentOp>())
      if (isStreamed(resident.getMode()))
        streamed[{resident.getWeight(), resident.getDevice()}] =
            resident.getMode();
    llvm::MapVector<Value, Needs> needs;
    for (DeviceOp device : program.getBody().getOps<DeviceOp>())
      needs[device];
    for (KvOp kv : program.getBody().getOps<KvOp>()) {
      int64_t &end = needs[kv.getDevice()].kvBytes;
      kv.setOffset(end);
      end += aligned(kv.getBytes());
    }
    for (PhaseOp phase : program.getBody().getOps<PhaseOp>())
      allocate(phase, needs);
    // A GPU and the CPU whose memory it shares have a weight once.
    bool isShared = llvm::any_of(needs, [](auto &entry) {
      return entry.first.template getDefiningOp<DeviceOp>().getSharesMemory();
    });
    llvm::DenseSet<Value> inHostMemory;
    for (auto &[value, need] : needs) {
      auto device = value.getDefiningOp<DeviceOp>();
      bool usesSharedMemory = isShared && (device.getSharesMemory() ||
                                           device.getKind() == DeviceKind::Cpu);
      int64_t weightBytes = 0;
      for (Value weight : need.weights) {
        if (streamed.contains({weight, value}) || need.tables.contains(weight))
          continue;
        if (usesSharedMemory && !inHostMemory.insert(weight).second)
          continue;
        WeightShape shape = shapeOf(weight);
        weightBytes += shape.bytes();
      }
      device.setArenaBytes(need.arenaBytes);
      device.setKvBytes(need.kvBytes);
      device.setWeightBytes(weightBytes);
      device.setScratchBytes(need.scratchBytes);
      device.setWorkerBytes(need.workerBytes);
    }
    recordResidency(program, needs, streamed);
  }

  /// Makes every weight resident on each device whose instructions read it,
  /// unless that device streams it or reads rows from the file.
  void recordResidency(ProgramOp program, llvm::MapVector<Value, Needs> &needs,
                       const StreamedWeights &streamed) {
    Block &block = program.getBody().front();
    for (ResidentOp old :
         llvm::make_early_inc_range(block.getOps<ResidentOp>()))
      old.erase();
    Operation *last = nullptr;
    SmallVector<Value> weights;
    for (Operation &op : block)
      if (op.getNumResults() == 1 && isa<WeightType>(op.getResultTypes()[0])) {
        weights.push_back(op.getResult(0));
        last = &op;
      }
    if (!last)
      return;
    OpBuilder builder(last->getContext());
    builder.setInsertionPointAfter(last);
    for (Value weight : weights)
      for (auto &[device, need] : needs) {
        if (!need.weights.contains(weight))
          continue;
        auto how = streamed.find({weight, device});
        builder.create<ResidentOp>(
            weight.getLoc(), weight, device,
            need.tables.contains(weight) ? ResidencyMode::File
            : how != streamed.end()      ? how->second
                                         : ResidencyMode::Resident);
      }
  }

  void allocate(PhaseOp phase, llvm::MapVector<Value, Needs> &needs) {
    // Lifetimes follow the order that the data requires. Buffers that share
    // bytes are then ordered by barriers and events that are needed anyway.
    auto buffers = llvm::to_vector(phase.getBody().getOps<BufferOp>());
    for (BufferOp buffer : buffers)
      buffer.removeOffsetAttr();
    std::vector<Ordering> orderings = orderingsOf(phase);
    size_t queues = orderings.empty() ? 0 : orderings.front().known.size();
    llvm::DenseMap<Value, unsigned> index;
    SmallVector<Lifetime> lifetimes;
    for (BufferOp buffer : buffers) {
      index[buffer] = lifetimes.size();
      lifetimes.push_back({buffer,
                           aligned(buffer.getBytes(phase.getMaxTokens())),
                           Clock(queues, 0), Clock(queues, INT32_MAX),
                           /*isInput=*/false, /*isOutput=*/false,
                           /*offset=*/0});
    }
    SmallVector<Held> heldBy(queues);
    BindOp bind = phase.getBind();
    for (Value input : bind.getInputs())
      lifetimes[index[input]].isInput = true;
    lifetimes[index[bind.getOutput()]].isOutput = true;
    for (auto [inst, ordering] :
         llvm::zip_equal(phase.getBody().getOps<InstOp>(), orderings)) {
      Held &held = heldBy[ordering.queue];
      if (held.left > 0) {
        --held.left;
        for (unsigned i : held.lifetimes)
          lifetimes[i].use(ordering);
      }
      SmallVector<unsigned> used;
      for (const Access &access : accessesOf(inst))
        if (auto found = index.find(access.region); found != index.end()) {
          lifetimes[found->second].use(ordering);
          used.push_back(found->second);
        }
      if (int left = instructionsBeside(inst))
        held = {used, left};
      Needs &need = needs[inst.getDevice()];
      // GPU kernels have no workers; plan-launches computes their workspace.
      if (inst.getDevice().getDefiningOp<DeviceOp>().getKind() ==
          DeviceKind::Cpu)
        need.scratchBytes = std::max(need.scratchBytes, scratchBytes(inst));
      for (auto [position, operand] :
           llvm::enumerate(inst.getSpec()->operands)) {
        Value value = inst.getArgument(position);
        if (!value || !isa<WeightType>(value.getType()))
          continue;
        need.weights.insert(value);
        if (operand.byRows)
          need.tables.insert(value);
      }
    }

    for (auto &[device, need] : needs) {
      int64_t arena = placeThose(lifetimes, device, /*perWorker=*/false);
      numArenaBytes += arena;
      need.arenaBytes = std::max(need.arenaBytes, arena);
      need.workerBytes = std::max(
          need.workerBytes, placeThose(lifetimes, device, /*perWorker=*/true));
    }
  }

  /// Places the shared or the per-worker buffers of a device. Returns the peak.
  int64_t placeThose(ArrayRef<Lifetime> lifetimes, Value device,
                     bool perWorker) {
    SmallVector<Lifetime> those;
    for (const Lifetime &lifetime : lifetimes) {
      BufferOp buffer = lifetime.buffer;
      if (buffer.getDevice() == device && buffer.getPerWorker() == perWorker)
        those.push_back(lifetime);
    }
    int64_t peak = place(those);
    for (Lifetime &lifetime : those) {
      lifetime.buffer.setOffset(lifetime.offset);
      numBufferBytes += lifetime.bytes;
    }
    return peak;
  }
};

} // namespace
