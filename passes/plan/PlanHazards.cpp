#include "passes/plan/PlanHazards.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::plan;
using moert::OperandRole;

SmallVector<Access> plan::accessesOf(InstOp inst) {
  SmallVector<Access> accesses;
  const moert::OpSpec &spec = *inst.getSpec();
  for (auto [position, operand] : llvm::enumerate(spec.operands)) {
    Value value = inst.getArgument(position);
    if (!value)
      continue;
    switch (operand.role) {
    case OperandRole::Read:
    case OperandRole::KvRead:
      accesses.push_back({value, false});
      break;
    case OperandRole::Write:
    case OperandRole::ReadWrite:
    case OperandRole::KvWrite:
      accesses.push_back({value, true});
      break;
    case OperandRole::Weight:
    case OperandRole::Constant:
      break;
    }
  }
  return accesses;
}

bool plan::isPerWorker(Value region) {
  auto buffer = region.getDefiningOp<BufferOp>();
  return buffer && buffer.getPerWorker();
}

InstOp plan::rebuild(InstOp inst, ValueRange waits, bool signals) {
  OpBuilder builder(inst);
  auto made = builder.create<InstOp>(
      inst.getLoc(), signals ? Type(EventType::get(inst.getContext())) : Type(),
      inst.getOp(), inst.getQueue(), inst.getKernels(), inst.getArguments(),
      inst.getModules(), waits, inst.getPresent(), inst.getInts(),
      inst.getFloats(), inst.getBarrier(), inst.getExplain(),
      inst.getWorkAttr(), inst.getLaunchSizes());
  if (inst.getEvent())
    inst.getEvent().dropAllUses();
  inst.erase();
  return made;
}

namespace {

/// The bytes of an arena that a buffer takes; empty without an offset.
struct Bytes {
  Value device;
  int64_t begin = 0, end = 0;

  Bytes(Value region, int64_t tokens) {
    auto buffer = region.getDefiningOp<BufferOp>();
    // Caches of different layers share no bytes.
    if (!buffer || !buffer.getOffset())
      return;
    device = buffer.getDevice();
    begin = *buffer.getOffset();
    end = begin + buffer.getBytes(tokens);
  }
  bool overlap(const Bytes &other) const {
    return device == other.device && begin < other.end && other.begin < end;
  }
};

/// By queue, the positions of a region's last reader and last writer.
struct LastUses {
  Clock read, write;
};

class Orderer {
public:
  explicit Orderer(PhaseOp phase) {
    for (InstOp inst : phase.getBody().getOps<InstOp>())
      insts_.push_back(inst);
    for (InstOp inst : insts_) {
      queues_.insert({inst.getQueue(), int32_t(queues_.size())});
      for (const Access &access : accessesOf(inst))
        if (!isPerWorker(access.region))
          regions_.insert({access.region, int32_t(regions_.size())});
    }
    findSharedBytes(phase.getMaxTokens());
    Clock none(queues_.size(), 0);
    clocks_.assign(queues_.size(), none);
    members_.resize(queues_.size());
    uses_.assign(regions_.size(), {none, none});
  }

  std::vector<Ordering> run() {
    for (InstOp inst : insts_)
      visit(inst);
    return std::move(orderings_);
  }

private:
  /// Fills `shared_`. Every region shares bytes with itself.
  void findSharedBytes(int64_t tokens) {
    std::vector<Bytes> bytes;
    for (auto [region, index] : regions_)
      bytes.emplace_back(region, tokens);
    shared_.resize(bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i)
      for (size_t j = 0; j < bytes.size(); ++j)
        if (i == j || bytes[i].overlap(bytes[j]))
          shared_[i].push_back(int32_t(j));
  }

  /// Raises the elements of `clock` to at least those of `other`.
  static void join(Clock &clock, ArrayRef<int32_t> other) {
    for (auto [value, least] : llvm::zip_equal(clock, other))
      value = std::max(value, least);
  }

  /// Returns, by queue, the last instruction that must have ended before
  /// `accesses`.
  Clock neededBy(ArrayRef<Access> accesses) const {
    Clock needed(queues_.size(), 0);
    for (const Access &access : accesses) {
      if (isPerWorker(access.region))
        continue;
      for (int32_t other : shared_[regions_.lookup(access.region)]) {
        join(needed, uses_[other].write);
        if (access.writes)
          join(needed, uses_[other].read);
      }
    }
    return needed;
  }

  /// Returns what is known to have ended once `inst` has ended.
  Clock ended(int32_t inst) const {
    Clock clock = orderings_[inst].known;
    clock[orderings_[inst].queue] = orderings_[inst].position;
    return clock;
  }

  void visit(InstOp inst) {
    int32_t queue = queues_.lookup(inst.getQueue());
    Ordering ordering;
    ordering.queue = queue;
    ordering.position = int32_t(members_[queue].size()) + 1;
    Clock &known = clocks_[queue];
    SmallVector<Access> accesses = accessesOf(inst);
    Clock needed = neededBy(accesses);
    SmallVector<int32_t> candidates;
    for (size_t other = 0; other < members_.size(); ++other)
      if (int32_t(other) != queue && needed[other] > known[other])
        candidates.push_back(members_[other][needed[other] - 1]);
    for (int32_t wait : candidates) {
      const Ordering &waited = orderings_[wait];
      if (llvm::none_of(candidates, [&](int32_t other) {
            return other != wait &&
                   ended(other)[waited.queue] >= waited.position;
          }))
        ordering.waits.push_back(wait);
    }
    llvm::sort(ordering.waits);
    for (int32_t wait : ordering.waits)
      join(known, ended(wait));
    // A wait may have implied the end of earlier instructions of this queue.
    ordering.barrier = needed[queue] > known[queue];
    if (ordering.barrier)
      known[queue] = ordering.position - 1;
    ordering.known = known;
    note(accesses, ordering);
    members_[queue].push_back(int32_t(orderings_.size()));
    orderings_.push_back(std::move(ordering));
  }

  void note(ArrayRef<Access> accesses, const Ordering &ordering) {
    for (const Access &access : accesses)
      if (!isPerWorker(access.region)) {
        LastUses &uses = uses_[regions_.lookup(access.region)];
        (access.writes ? uses.write : uses.read)[ordering.queue] =
            ordering.position;
      }
  }

  SmallVector<InstOp> insts_;
  llvm::MapVector<Value, int32_t> queues_, regions_;
  std::vector<SmallVector<int32_t>> shared_; ///< By region.
  std::vector<LastUses> uses_;               ///< By region.
  std::vector<Clock> clocks_;                ///< By queue: known to have ended.
  std::vector<SmallVector<int32_t>> members_; ///< By queue: its instructions.
  std::vector<Ordering> orderings_;
};

} // namespace

std::vector<Ordering> plan::orderingsOf(PhaseOp phase) {
  return Orderer(phase).run();
}
