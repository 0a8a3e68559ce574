#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "passes/PlanHazards.h"
#include "passes/PlanPasses.h"
#include "passes/PlanScratch.h"
#include "runtime/base/CheckedMath.h"

namespace mlir::plan {
#define GEN_PASS_DEF_PLANALLOCATEPASS
#include "passes/PlanPasses.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;

namespace {

/// A buffer from the first epoch that uses it to the last.
struct Lifetime {
  BufferOp buffer;
  int64_t bytes = 0;
  int64_t first = INT64_MAX, last = -1;
  int64_t offset = 0;

  void use(int64_t epoch) {
    first = std::min(first, epoch);
    last = std::max(last, epoch);
  }
  bool meets(const Lifetime &other) const {
    return first <= other.last && other.first <= last;
  }
};

/// What a device needs besides its arena.
struct Needs {
  llvm::SetVector<Value> weights;
  int64_t kvBytes = 0, scratchBytes = 0, arenaBytes = 0, workerBytes = 0;
};

int64_t aligned(int64_t bytes) {
  return int64_t(moert::alignUp(uint64_t(bytes), kRegionAlignment));
}

/// The smallest gap that holds `lifetime` between the placed ones alive at the
/// same time; the lowest of equal ones.
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

/// Gives every lifetime an offset, the largest first; returns the peak.
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
  void allocate(ProgramOp program) {
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
    for (auto &[value, need] : needs) {
      auto device = value.getDefiningOp<DeviceOp>();
      int64_t weightBytes = 0;
      for (Value weight : need.weights) {
        WeightShape shape = shapeOf(weight);
        weightBytes += shape.outer * shape.matrixBytes();
      }
      device.setArenaBytes(need.arenaBytes);
      device.setKvBytes(need.kvBytes);
      device.setWeightBytes(weightBytes);
      device.setScratchBytes(need.scratchBytes);
      device.setWorkerBytes(need.workerBytes);
    }
  }

  void allocate(PhaseOp phase, llvm::MapVector<Value, Needs> &needs) {
    // Liveness in epochs, the stretches between barriers: buffers that share
    // bytes are then apart by a barrier that is needed anyway.
    llvm::DenseMap<Value, unsigned> index;
    SmallVector<Lifetime> lifetimes;
    for (BufferOp buffer : phase.getBody().getOps<BufferOp>()) {
      buffer.removeOffsetAttr();
      index[buffer] = lifetimes.size();
      lifetimes.push_back(
          {buffer, aligned(buffer.getBytes(phase.getMaxTokens()))});
    }
    BindOp bind = phase.getBind();
    lifetimes[index[bind.getInput()]].use(0);
    Epoch epoch(phase.getMaxTokens());
    int64_t number = 0;
    for (InstOp inst : phase.getBody().getOps<InstOp>()) {
      SmallVector<Access> accesses = accessesOf(inst);
      if (epoch.conflictsWith(accesses)) {
        epoch.clear();
        ++number;
      }
      epoch.add(accesses);
      for (const Access &access : accesses)
        if (auto found = index.find(access.region); found != index.end())
          lifetimes[found->second].use(number);
      Needs &need = needs[inst.getDevice()];
      need.scratchBytes = std::max(need.scratchBytes, scratchBytes(inst));
      for (Value value : inst.getArguments())
        if (isa<WeightType>(value.getType()))
          need.weights.insert(value);
    }
    lifetimes[index[bind.getOutput()]].use(number);

    for (auto &[device, need] : needs) {
      int64_t arena = placeThose(lifetimes, device, /*perWorker=*/false);
      numArenaBytes += arena;
      need.arenaBytes = std::max(need.arenaBytes, arena);
      need.workerBytes = std::max(
          need.workerBytes, placeThose(lifetimes, device, /*perWorker=*/true));
    }
  }

  /// Places a device's shared buffers or those per worker; returns the peak.
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
