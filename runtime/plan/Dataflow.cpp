#include "kernels/Activation.h"
#include "kernels/KvCache.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/States.h"
#include "runtime/plan/Verify.h"
#include "runtime/schema/OpTable.h"

#include <algorithm>
#include <string>
#include <vector>

namespace moert {

namespace {
/// Bounds known for the integers in a region. Kernels use them as indices, so
/// each must come from an instruction that bounds them.
struct Contents {
  Indices indices = Indices::None;
  int64_t experts = 0, topK = 0;
  int64_t ratio = 0; ///< Positions per entry.
  int64_t local = 0; ///< Number of last entries, which cannot be chosen.
  /// Instruction that wrote offsets and slots, which must match each other.
  uint32_t writer = 0;
};

/// Memories with separate addresses.
enum class Space : uint8_t { Arena, Kv, Worker };

/// Bytes that instructions access: a buffer or a cache.
struct Region {
  Space space;
  uint32_t device;
  uint64_t begin, end; ///< Range of offsets in the phase's largest step.
  uint64_t bytesPerToken, fixedBytes;
  uint8_t encoding;
  int64_t encodedCols; ///< Columns of an A8 buffer, else 0.
  bool defined = false;
  Contents contents;

  bool overlaps(const Region &other) const {
    return space == other.space && device == other.device &&
           begin < other.end && other.begin < end;
  }
  /// Whether both regions have the same elements at the same offsets for every
  /// number of tokens.
  bool sameAs(const Region &other) const {
    return space == other.space && device == other.device &&
           begin == other.begin && hasShapeOf(other);
  }
  bool hasShapeOf(const Region &other) const {
    return bytesPerToken == other.bytesPerToken &&
           fixedBytes == other.fixedBytes && encoding == other.encoding &&
           encodedCols == other.encodedCols;
  }
};

struct Access {
  uint32_t region;
  const OperandSpec *operand;
  bool reads, writes;
};

/// For each queue, the number of its leading instructions known to have ended.
using Clock = std::vector<uint32_t>;

/// An access that some queue does not yet know to have ended.
struct Pending {
  uint32_t region;
  uint32_t queue;
  uint32_t position; ///< Position of the instruction in its queue, from 1.
  uint32_t instruction;
  bool writes;
};

class Walk {
public:
  Walk(const fb::Plan &plan, const fb::Phase &phase)
      : plan_(plan), phase_(phase) {}

  Status run();

private:
  void addBuffer(const fb::Buffer &buffer);
  void addKv(const fb::Kv &kv);
  Status visit(uint32_t index);
  void collectAccesses(const fb::Instruction &instruction, const OpSpec &spec);
  Status checkWithin(OpKind kind) const;
  Status checkReplicated() const;
  Status checkCopy(OpKind kind) const;
  void synchronize(const fb::Instruction &instruction);
  void forget();
  size_t placeOf(const Pending &pending) const {
    return (pending.region * clocks_.size() + pending.queue) * 2 +
           pending.writes;
  }
  Status checkRaces(uint32_t queue) const;
  void note(uint32_t queue, uint32_t index);
  Status checkContents(const fb::Instruction &instruction,
                       const OpSpec &spec) const;
  Contents written(const fb::Instruction &instruction, const OpSpec &spec,
                   const Access &access, uint32_t index) const;
  int64_t expertsOf(const fb::Instruction &instruction,
                    const OpSpec &spec) const;
  void define(uint32_t region, const Contents &contents);

  const Access *reading(Indices indices) const;
  std::string nameOf(uint32_t region) const;

  const fb::Plan &plan_;
  const fb::Phase &phase_;
  std::vector<Region> regions_;  ///< Buffers first, then caches.
  std::vector<Access> accesses_; ///< Accesses of the visited instruction.
  std::vector<Pending> pending_;
  /// Index in pending_ of the last read and the last write of each region by
  /// each queue; earlier accesses end before these. kNone: none.
  std::vector<uint32_t> places_;
  std::vector<Clock> clocks_; ///< What the instructions of each queue know.
  /// For each queue: the position of its last instruction.
  std::vector<uint32_t> positions_;
  /// Number of remaining instructions of each queue.
  std::vector<uint32_t> remaining_;
  /// For each event: what a queue that waits for it learns.
  std::vector<Clock> events_;
};

constexpr uint32_t kNone = UINT32_MAX;

void Walk::addBuffer(const fb::Buffer &buffer) {
  auto encoding = moek::Encoding(buffer.encoding());
  uint64_t row = moek::encodedRowBytes(encoding, buffer.cols());
  Region region{};
  region.space = buffer.per_worker() ? Space::Worker : Space::Arena;
  region.device = buffer.device();
  region.bytesPerToken = row * buffer.rows_per_token();
  region.fixedBytes = row * buffer.fixed_rows();
  region.begin = buffer.offset();
  region.end = region.begin + region.bytesPerToken * phase_.max_tokens() +
               region.fixedBytes;
  region.encoding = buffer.encoding();
  region.encodedCols = moek::isA8(encoding) ? buffer.cols() : 0;
  regions_.push_back(region);
}

void Walk::addKv(const fb::Kv &kv) {
  Region region{};
  region.space = Space::Kv;
  region.device = kv.device();
  region.fixedBytes = uint64_t(cacheBytes(kv));
  region.begin = kv.offset();
  region.end = region.begin + region.fixedBytes;
  regions_.push_back(region);
}

std::string Walk::nameOf(uint32_t region) const {
  uint32_t buffers = count(phase_.buffers());
  if (region >= buffers)
    return fmt::format("cache {}", region - buffers);
  return "buffer " + quoted(text(phase_.buffers()->Get(region)->name()));
}

void Walk::collectAccesses(const fb::Instruction &instruction,
                           const OpSpec &spec) {
  accesses_.clear();
  for (uint32_t i = 0; i < spec.operands.size(); ++i) {
    const fb::Operand *operand = instruction.operands()->Get(i);
    const OperandSpec *own = &spec.operands[i];
    if (operand->kind() == fb::OperandKind::None)
      continue;
    switch (own->role) {
    case OperandRole::Read:
      accesses_.push_back({operand->index(), own, true, false});
      break;
    case OperandRole::Write:
      accesses_.push_back({operand->index(), own, false, true});
      break;
    case OperandRole::ReadWrite:
      accesses_.push_back({operand->index(), own,
                           intOf(instruction, spec, "accumulate") != 0, true});
      break;
    case OperandRole::KvRead:
    case OperandRole::KvWrite: {
      bool writes = own->role == OperandRole::KvWrite;
      accesses_.push_back(
          {count(phase_.buffers()) + operand->index(), own, !writes, writes});
      break;
    }
    case OperandRole::Weight:
    case OperandRole::Constant:
      break;
    }
  }
}

/// Checks the operands of one instruction against each other.
Status Walk::checkWithin(OpKind kind) const {
  for (size_t i = 0; i < accesses_.size(); ++i) {
    const Access &a = accesses_[i];
    if (a.reads && !regions_[a.region].defined)
      return invalidPlan("reads {} as {}, which nothing wrote before or which "
                         "was overwritten since",
                         nameOf(a.region), a.operand->name);
    for (size_t j = i + 1; j < accesses_.size(); ++j) {
      const Access &b = accesses_[j];
      if (!(a.writes || b.writes) ||
          !regions_[a.region].overlaps(regions_[b.region]))
        continue;
      if (kind == OpKind::InPlace &&
          regions_[a.region].sameAs(regions_[b.region]))
        continue;
      return invalidPlan("operands {} ({}) and {} ({}) overlap",
                         a.operand->name, nameOf(a.region), b.operand->name,
                         nameOf(b.region));
    }
  }
  return Status::ok();
}

/// An instruction that writes per-worker memory is executed in full by every
/// worker, so it must not write shared memory, too.
Status Walk::checkReplicated() const {
  auto isOwn = [&](const Access &access) {
    return regions_[access.region].space == Space::Worker;
  };
  auto own = std::ranges::find_if(accesses_, [&](const Access &access) {
    return access.writes && isOwn(access);
  });
  if (own == accesses_.end())
    return Status::ok();
  for (const Access &access : accesses_)
    if (access.writes && !isOwn(access))
      return invalidPlan("writes {}, of which each worker has its own, and {}, "
                         "which all share",
                         nameOf(own->region), nameOf(access.region));
  return Status::ok();
}

/// A copy's destination has the shape of its source.
Status Walk::checkCopy(OpKind kind) const {
  if (kind != OpKind::Copies ||
      regions_[accesses_[0].region].hasShapeOf(regions_[accesses_[1].region]))
    return Status::ok();
  return invalidPlan("copies {} to {}, which has another shape",
                     nameOf(accesses_[0].region), nameOf(accesses_[1].region));
}

/// Computes which instructions are known to have ended when this one begins.
void Walk::synchronize(const fb::Instruction &instruction) {
  uint32_t queue = instruction.queue();
  Clock &clock = clocks_[queue];
  for (uint32_t i = 0; i < count(instruction.waits()); ++i) {
    const Clock &event = events_[instruction.waits()->Get(i)];
    for (size_t other = 0; other < clock.size(); ++other)
      clock[other] = std::max(clock[other], event[other]);
  }
  if (instruction.barrier())
    clock[queue] = positions_[queue];
  if (instruction.barrier() || count(instruction.waits()) > 0)
    forget();
  ++positions_[queue];
  if (instruction.signal() >= 0) {
    events_.push_back(clock);
    events_.back()[queue] = positions_[queue];
  }
}

/// Drops accesses that every queue with remaining instructions knows to have
/// ended: nothing can race with them.
void Walk::forget() {
  Clock known(clocks_.size(), UINT32_MAX);
  for (size_t queue = 0; queue < clocks_.size(); ++queue)
    if (remaining_[queue] > 0)
      for (size_t other = 0; other < known.size(); ++other)
        known[other] = std::min(known[other], clocks_[queue][other]);
  size_t kept = 0;
  for (const Pending &pending : pending_) {
    uint32_t &place = places_[placeOf(pending)];
    place = pending.position <= known[pending.queue] ? kNone : uint32_t(kept);
    if (place != kNone)
      pending_[kept++] = pending;
  }
  pending_.resize(kept);
}

/// Checks for races with accesses that are not known to have ended. Per-worker
/// memory has no races.
Status Walk::checkRaces(uint32_t queue) const {
  const Clock &clock = clocks_[queue];
  for (const Access &access : accesses_) {
    if (regions_[access.region].space == Space::Worker)
      continue;
    for (const Pending &pending : pending_)
      if ((access.writes || pending.writes) &&
          pending.position > clock[pending.queue] &&
          regions_[access.region].overlaps(regions_[pending.region]))
        return invalidPlan("{} {}, which instruction {} {} with no {} between "
                           "them",
                           access.writes ? "writes" : "reads",
                           nameOf(access.region), pending.instruction,
                           pending.writes ? "writes" : "reads",
                           pending.queue == queue ? "barrier" : "event");
  }
  return Status::ok();
}

void Walk::note(uint32_t queue, uint32_t index) {
  for (const Access &access : accesses_) {
    if (regions_[access.region].space == Space::Worker)
      continue;
    Pending pending{access.region, queue, positions_[queue], index,
                    access.writes};
    uint32_t &place = places_[placeOf(pending)];
    if (place == kNone) {
      place = uint32_t(pending_.size());
      pending_.push_back(pending);
    }
    pending_[place] = pending;
  }
}

/// Returns the operand that is read as such indices, or null.
const Access *Walk::reading(Indices indices) const {
  for (const Access &access : accesses_)
    if (access.operand->role == OperandRole::Read &&
        access.operand->indices == indices)
      return &access;
  return nullptr;
}

/// Returns the number of experts that the instruction chooses from.
int64_t Walk::expertsOf(const fb::Instruction &instruction,
                        const OpSpec &spec) const {
  if (int64_t experts = intOf(instruction, spec, "experts"); experts >= 0)
    return experts;
  for (const fb::Operand *operand : *instruction.operands())
    if (operand->kind() == fb::OperandKind::Weight)
      return plan_.weights()->Get(operand->index())->outer();
  return 0;
}

/// The parameter `local` of instructions that have it, or 0.
int64_t localOf(const fb::Instruction &instruction, const OpSpec &spec) {
  return std::max<int64_t>(0, intOf(instruction, spec, "local"));
}

/// Returns the positions that one of the instruction's choices stands for.
int64_t positionsOf(const fb::Instruction &instruction, const OpSpec &spec) {
  return intOf(instruction, spec, "ratio") *
         std::max<int64_t>(1, intOf(instruction, spec, "pool"));
}

/// Checks that the indices which the instruction uses are bounded.
Status Walk::checkContents(const fb::Instruction &instruction,
                           const OpSpec &spec) const {
  auto contentsOf = [&](const Access &access) -> const Contents & {
    return regions_[access.region].contents;
  };
  if (const Access *tokens = reading(Indices::Tokens))
    if (contentsOf(*tokens).indices != Indices::Tokens)
      return invalidPlan("operand {} is not the phase's input",
                         tokens->operand->name);
  int64_t topK = intOf(instruction, spec, "top_k");
  int64_t experts = topK >= 0 ? expertsOf(instruction, spec) : 0;
  int64_t ratio = positionsOf(instruction, spec);
  if (const Access *access = reading(Indices::Experts)) {
    const Contents &ids = contentsOf(*access);
    if (ids.indices != Indices::Experts || ids.experts != experts ||
        ids.topK != topK)
      return invalidPlan("operand {} does not hold a router's choice of {} "
                         "from {} experts",
                         access->operand->name, topK, experts);
  }
  if (const Access *access = reading(Indices::Entries)) {
    const Contents &chosen = contentsOf(*access);
    int64_t local = localOf(instruction, spec);
    if (chosen.indices != Indices::Entries || chosen.ratio != ratio ||
        chosen.topK != topK || chosen.local != local)
      return invalidPlan("operand {} does not hold an index_select's choice of "
                         "{} entries of {} positions before the last {}",
                         access->operand->name, topK, ratio, local);
  }
  const Access *offsetsOf = reading(Indices::GroupOffsets);
  const Access *slotsOf = reading(Indices::GroupSlots);
  if (offsetsOf && slotsOf) {
    const Contents &offsets = contentsOf(*offsetsOf);
    const Contents &slots = contentsOf(*slotsOf);
    if (offsets.indices != Indices::GroupOffsets ||
        slots.indices != Indices::GroupSlots || offsets.writer != slots.writer)
      return invalidPlan("operands {} and {} do not come from one "
                         "expert_group",
                         offsetsOf->operand->name, slotsOf->operand->name);
    if (offsets.experts != experts || offsets.topK != topK)
      return invalidPlan("groups {} of {} experts, but takes {} of {}",
                         offsets.topK, offsets.experts, topK, experts);
  }
  return Status::ok();
}

/// Returns the contents of a written operand after the instruction.
Contents Walk::written(const fb::Instruction &instruction, const OpSpec &spec,
                       const Access &access, uint32_t index) const {
  if (spec.kind == OpKind::Copies)
    return regions_[accesses_[0].region].contents;
  Indices indices = access.operand->indices;
  if (indices == Indices::None)
    return {};
  // The number of experts in a slice of them.
  int64_t here = intOf(instruction, spec, "count");
  // A token has as many choices as fit in the operand: all that were read, or
  // some.
  int64_t topK =
      indices == Indices::Experts
          ? int64_t(regions_[access.region].bytesPerToken / sizeof(int32_t))
          : intOf(instruction, spec, "top_k");
  return {indices,
          here > 0 ? here : expertsOf(instruction, spec),
          topK,
          positionsOf(instruction, spec),
          localOf(instruction, spec),
          index};
}

/// Marks `target` as written; data in regions that overlap it is lost.
void Walk::define(uint32_t target, const Contents &contents) {
  const Region &written = regions_[target];
  for (Region &region : regions_) {
    if (!region.overlaps(written))
      continue;
    region.defined = region.sameAs(written);
    region.contents = region.defined ? contents : Contents();
  }
}

Status Walk::visit(uint32_t index) {
  const fb::Instruction &instruction = *phase_.instructions()->Get(index);
  const OpSpec &spec = *findOp(instruction.op());
  collectAccesses(instruction, spec);
  MOE_RETURN_IF_ERROR(checkWithin(spec.kind));
  MOE_RETURN_IF_ERROR(checkReplicated());
  MOE_RETURN_IF_ERROR(checkCopy(spec.kind));
  synchronize(instruction);
  MOE_RETURN_IF_ERROR(checkRaces(instruction.queue()));
  note(instruction.queue(), index);
  --remaining_[instruction.queue()];
  MOE_RETURN_IF_ERROR(checkContents(instruction, spec));
  for (const Access &access : accesses_)
    if (access.writes)
      define(access.region, written(instruction, spec, access, index));
  return Status::ok();
}

Status Walk::run() {
  for (uint32_t i = 0; i < count(phase_.buffers()); ++i)
    addBuffer(*phase_.buffers()->Get(i));
  for (uint32_t i = 0; i < count(plan_.kv()); ++i)
    addKv(*plan_.kv()->Get(i));
  size_t queues = count(plan_.queues());
  places_.assign(regions_.size() * queues * 2, kNone);
  clocks_.assign(queues, Clock(queues, 0));
  positions_.assign(queues, 0);
  remaining_.assign(queues, 0);
  for (uint32_t i = 0; i < count(phase_.instructions()); ++i)
    ++remaining_[phase_.instructions()->Get(i)->queue()];

  Contents input;
  if (regions_[phase_.input()].encoding == uint8_t(moek::Encoding::I32))
    input.indices = Indices::Tokens;
  define(phase_.input(), input);
  if (phase_.hidden() >= 0)
    define(uint32_t(phase_.hidden()), Contents());
  for (uint32_t i = 0; i < count(phase_.instructions()); ++i)
    MOE_RETURN_IF_ERROR(visit(i).at(
        fmt::format("instruction {} ({})", i,
                    findOp(phase_.instructions()->Get(i)->op())->name)));
  if (!regions_[phase_.output()].defined)
    return invalidPlan("no instruction writes its output");
  return Status::ok();
}

} // namespace

Status verifyDataflow(const fb::Plan &plan, const fb::Phase &phase) {
  return Walk(plan, phase).run();
}

} // namespace moert
