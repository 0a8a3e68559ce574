#include "kernels/Activation.h"
#include "kernels/KvCache.h"
#include "runtime/PlanAccess.h"
#include "runtime/Verify.h"
#include "runtime/schema/OpTable.h"

#include <algorithm>
#include <ranges>
#include <string>
#include <vector>

namespace moert {

namespace {
using moek::OpCode;

/// What is known about the integers in a region. Kernels use them as indices,
/// so each must come from an instruction that bounds them.
struct Contents {
  enum Kind { Plain, Tokens, ExpertIds, GroupOffsets, GroupSlots };
  Kind kind = Plain;
  int64_t experts = 0, topK = 0;
  /// Instruction that wrote offsets and slots: they belong together.
  uint32_t writer = 0;
};

/// Memories that have bytes of their own.
enum class Space : uint8_t { Arena, Kv, Worker };

/// Bytes that instructions read and write: a buffer or a cache.
struct Region {
  Space space;
  uint64_t begin, end; ///< At the phase's largest step.
  uint64_t bytesPerToken, fixedBytes;
  uint8_t encoding;
  int64_t encodedCols; ///< Of an A8 buffer, else 0.
  bool defined = false;
  Contents contents;

  bool overlaps(const Region &other) const {
    return space == other.space && begin < other.end && other.begin < end;
  }
  /// The same elements at the same places for every token count.
  bool sameAs(const Region &other) const {
    return space == other.space && begin == other.begin &&
           bytesPerToken == other.bytesPerToken &&
           fixedBytes == other.fixedBytes && encoding == other.encoding &&
           encodedCols == other.encodedCols;
  }
};

struct Access {
  uint32_t region;
  std::string_view operand;
  bool reads, writes;
};

/// An access that no barrier has separated from the current instruction.
struct Pending {
  uint32_t region;
  uint32_t instruction;
  bool writes;
};

/// Ops whose kernels work element by element or row by row, so that an input
/// may be the output.
bool worksInPlace(OpCode op) {
  return op == OpCode::RmsNorm || op == OpCode::SiluMul || op == OpCode::Add;
}

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
  Status checkWithin(OpCode op) const;
  Status checkReplicated() const;
  Status checkRaces(bool barrier, uint32_t index);
  Status checkContents(const fb::Instruction &instruction,
                       const OpSpec &spec) const;
  Contents written(const fb::Instruction &instruction, const OpSpec &spec,
                   std::string_view operand, uint32_t index) const;
  void define(uint32_t region, const Contents &contents);

  const Contents &contentsOf(std::string_view operand) const;
  std::string nameOf(uint32_t region) const;

  const fb::Plan &plan_;
  const fb::Phase &phase_;
  std::vector<Region> regions_;       ///< Buffers, then caches.
  std::vector<Access> accesses_;      ///< Of the instruction being visited.
  std::vector<Pending> pending_;      ///< At most two per region.
  std::vector<uint8_t> pendingKinds_; ///< By region: 1 read, 2 written.
};

void Walk::addBuffer(const fb::Buffer &buffer) {
  auto encoding = moek::Encoding(buffer.encoding());
  uint64_t row = moek::encodedRowBytes(encoding, buffer.cols());
  Region region{};
  region.space = buffer.per_worker() ? Space::Worker : Space::Arena;
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
  region.fixedBytes = uint64_t(
      moek::kvBytes(moek::KvType(kv.type()), kv.width(), kv.capacity()));
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
    std::string_view name = spec.operands[i].name;
    if (operand->kind() == fb::OperandKind::None)
      continue;
    switch (spec.operands[i].role) {
    case OperandRole::Read:
      accesses_.push_back({operand->index(), name, true, false});
      break;
    case OperandRole::Write:
      accesses_.push_back({operand->index(), name, false, true});
      break;
    case OperandRole::ReadWrite:
      accesses_.push_back({operand->index(), name,
                           intOf(instruction, spec, "accumulate") != 0, true});
      break;
    case OperandRole::KvRead:
    case OperandRole::KvWrite: {
      bool writes = spec.operands[i].role == OperandRole::KvWrite;
      accesses_.push_back(
          {count(phase_.buffers()) + operand->index(), name, !writes, writes});
      break;
    }
    case OperandRole::Weight:
    case OperandRole::Constant:
      break;
    }
  }
}

/// Operands of one instruction against each other.
Status Walk::checkWithin(OpCode op) const {
  for (size_t i = 0; i < accesses_.size(); ++i) {
    const Access &a = accesses_[i];
    if (a.reads && !regions_[a.region].defined)
      return invalidPlan("reads {} as {}, which nothing wrote before or which "
                         "was overwritten since",
                         nameOf(a.region), a.operand);
    for (size_t j = i + 1; j < accesses_.size(); ++j) {
      const Access &b = accesses_[j];
      if (!(a.writes || b.writes) ||
          !regions_[a.region].overlaps(regions_[b.region]))
        continue;
      if (worksInPlace(op) && regions_[a.region].sameAs(regions_[b.region]))
        continue;
      return invalidPlan("operands {} ({}) and {} ({}) overlap", a.operand,
                         nameOf(a.region), b.operand, nameOf(b.region));
    }
  }
  return Status::ok();
}

/// Every worker does the whole of an instruction that writes its own memory:
/// what is shared would be written by all of them.
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

/// Against the instructions since the last barrier. A worker's own memory has
/// no races.
Status Walk::checkRaces(bool barrier, uint32_t index) {
  if (barrier) {
    for (const Pending &pending : pending_)
      pendingKinds_[pending.region] = 0;
    pending_.clear();
  }
  auto isShared = [&](const Access &access) {
    return regions_[access.region].space != Space::Worker;
  };
  for (const Access &access : accesses_ | std::views::filter(isShared))
    for (const Pending &pending : pending_)
      if ((access.writes || pending.writes) &&
          regions_[access.region].overlaps(regions_[pending.region]))
        return invalidPlan("{} {}, which instruction {} {} with no barrier "
                           "between them",
                           access.writes ? "writes" : "reads",
                           nameOf(access.region), pending.instruction,
                           pending.writes ? "writes" : "reads");
  for (const Access &access : accesses_ | std::views::filter(isShared)) {
    uint8_t kind = access.writes ? 2 : 1;
    if (pendingKinds_[access.region] & kind)
      continue;
    pendingKinds_[access.region] |= kind;
    pending_.push_back({access.region, index, access.writes});
  }
  return Status::ok();
}

const Contents &Walk::contentsOf(std::string_view operand) const {
  static constexpr Contents none;
  for (const Access &access : accesses_)
    if (access.operand == operand)
      return regions_[access.region].contents;
  return none;
}

/// That what the instruction uses as indices is bounded.
Status Walk::checkContents(const fb::Instruction &instruction,
                           const OpSpec &spec) const {
  switch (spec.op) {
  case OpCode::Embed:
    if (contentsOf("tokens").kind != Contents::Tokens)
      return invalidPlan("operand tokens is not the phase's input");
    return Status::ok();
  case OpCode::ExpertGroup: {
    const Contents &ids = contentsOf("ids");
    int64_t experts = intOf(instruction, spec, "experts");
    int64_t topK = intOf(instruction, spec, "top_k");
    if (ids.kind != Contents::ExpertIds || ids.experts != experts ||
        ids.topK != topK)
      return invalidPlan("operand ids does not hold a router's choice of {} "
                         "from {} experts",
                         topK, experts);
    return Status::ok();
  }
  case OpCode::ExpertsLinear:
  case OpCode::ExpertsGateUp: {
    const Contents &offsets = contentsOf("offsets");
    const Contents &slots = contentsOf("slots");
    // Operand 1 is the first expert weight in both signatures.
    const fb::Weight *weight =
        plan_.weights()->Get(instruction.operands()->Get(1)->index());
    if (offsets.kind != Contents::GroupOffsets ||
        slots.kind != Contents::GroupSlots || offsets.writer != slots.writer)
      return invalidPlan("operands offsets and slots do not come from one "
                         "expert_group");
    if (offsets.experts != weight->outer() ||
        offsets.topK != intOf(instruction, spec, "top_k"))
      return invalidPlan("groups {} of {} experts, but takes {} of {}",
                         offsets.topK, offsets.experts,
                         intOf(instruction, spec, "top_k"), weight->outer());
    return Status::ok();
  }
  default:
    return Status::ok();
  }
}

/// What `operand` holds after the instruction.
Contents Walk::written(const fb::Instruction &instruction, const OpSpec &spec,
                       std::string_view operand, uint32_t index) const {
  Contents contents;
  if (spec.op == OpCode::Router && operand == "ids")
    contents.kind = Contents::ExpertIds;
  else if (spec.op == OpCode::ExpertGroup)
    contents.kind =
        operand == "offsets" ? Contents::GroupOffsets : Contents::GroupSlots;
  if (contents.kind != Contents::Plain) {
    contents.experts = intOf(instruction, spec, "experts");
    contents.topK = intOf(instruction, spec, "top_k");
    contents.writer = index;
  }
  return contents;
}

/// Marks `target` as written: what lay over it is lost.
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
  MOE_RETURN_IF_ERROR(checkWithin(spec.op));
  MOE_RETURN_IF_ERROR(checkReplicated());
  MOE_RETURN_IF_ERROR(checkRaces(instruction.barrier(), index));
  MOE_RETURN_IF_ERROR(checkContents(instruction, spec));
  for (const Access &access : accesses_)
    if (access.writes)
      define(access.region, written(instruction, spec, access.operand, index));
  return Status::ok();
}

Status Walk::run() {
  for (uint32_t i = 0; i < count(phase_.buffers()); ++i)
    addBuffer(*phase_.buffers()->Get(i));
  for (uint32_t i = 0; i < count(plan_.kv()); ++i)
    addKv(*plan_.kv()->Get(i));
  pendingKinds_.assign(regions_.size(), 0);

  Contents input;
  if (regions_[phase_.input()].encoding == uint8_t(moek::Encoding::I32))
    input.kind = Contents::Tokens;
  define(phase_.input(), input);
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
