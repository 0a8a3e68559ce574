#include "runtime/Bind.h"

#include "runtime/OpReader.h"

#include <algorithm>
#include <utility>

namespace moert {

namespace {
/// By OpCode.
constexpr Binder binders[moek::kOpCodeCount] = {
#define MOE_OP(op, name, number, kind) bind##op,
#include "kernels/Ops.def"
};

/// Binds the instructions of one phase.
class PhaseBinder {
public:
  PhaseBinder(const fb::Plan &plan, const fb::Phase &phase, uint32_t device,
              std::span<const DeviceMemory> memories, const WeightFiles &files,
              BoundPhase &bound)
      : plan_(plan), phase_(phase), device_(device), memories_(memories),
        files_(files), bound_(bound), arguments_(bound.arguments) {}

  /// Appends instruction `index` of the phase, if it is the device's.
  Status add(uint32_t index) {
    const fb::Instruction &instruction = *phase_.instructions()->Get(index);
    if (deviceOf(plan_, instruction) != device_)
      return Status::ok();
    MOE_ASSIGN_OR_RETURN(BoundInstruction result, bind(instruction));
    result.index = index;
    BoundPhase::EventsAt events;
    events.signal = std::exchange(bound_.lastSignal, instruction.signal());
    events.firstWait = uint32_t(bound_.waits.size());
    events.waits = count(instruction.waits());
    for (uint32_t i = 0; i < events.waits; ++i)
      bound_.waits.push_back(instruction.waits()->Get(i));
    if (instruction.barrier())
      result.sync |= BoundInstruction::kBarrier;
    if (events.signal >= 0 || events.waits > 0)
      result.sync |= BoundInstruction::kEvents;
    bound_.events.push_back(events);
    bound_.instructions.push_back(result);
    return Status::ok();
  }

private:
  StatusOr<BoundInstruction> bind(const fb::Instruction &instruction) {
    OwnBuffers own = ownBuffers(instruction);
    std::span<std::byte *const> workers = memories_[device_].workers;
    if (own.used && workers.empty())
      return Status(StatusCode::Internal, "has buffers per worker, but was "
                                          "bound without workers");
    MOE_ASSIGN_OR_RETURN(BoundInstruction bound,
                         bind(instruction, own.used ? workers[0] : nullptr));
    bound.replicated = own.written;
    if (!own.used)
      return bound;
    auto **args = arguments_.makeArray<const void *>(workers.size());
    args[0] = bound.args;
    for (size_t i = 1; i < workers.size(); ++i) {
      MOE_ASSIGN_OR_RETURN(BoundInstruction other,
                           bind(instruction, workers[i]));
      args[i] = other.args;
    }
    bound.ownArgs = args;
    return bound;
  }

  /// Whether an instruction uses and writes buffers that each worker has.
  struct OwnBuffers {
    bool used = false, written = false;
  };
  OwnBuffers ownBuffers(const fb::Instruction &instruction) const {
    OwnBuffers own;
    const OpSpec &spec = *findOp(instruction.op());
    for (uint32_t i = 0; i < spec.operands.size(); ++i) {
      const fb::Operand &operand = *instruction.operands()->Get(i);
      if (operand.kind() != fb::OperandKind::Buffer ||
          !phase_.buffers()->Get(operand.index())->per_worker())
        continue;
      own.used = true;
      own.written |= spec.operands[i].role != OperandRole::Read;
    }
    return own;
  }

  StatusOr<BoundInstruction> bind(const fb::Instruction &instruction,
                                  std::byte *own) {
    Binder binder = binders[instruction.op()];
    OpReader reader(plan_, phase_, instruction, memories_, own, files_,
                    arguments_);
    BoundInstruction bound{reader.driver(), binder(reader)};
    reader.checkScratch();
    MOE_RETURN_IF_ERROR(reader.finish());
    return bound;
  }

  const fb::Plan &plan_;
  const fb::Phase &phase_;
  const uint32_t device_;
  std::span<const DeviceMemory> memories_;
  const WeightFiles &files_;
  BoundPhase &bound_;
  ArgumentStore &arguments_;
};
} // namespace

void *ArgumentStore::allocate(size_t bytes) {
  bytes = (bytes + 15) / 16 * 16;
  if (used_ + bytes > chunkBytes_) {
    chunkBytes_ = std::max(bytes, kChunkBytes);
    chunks_.push_back(std::make_unique<std::byte[]>(chunkBytes_));
    used_ = 0;
  }
  void *place = chunks_.back().get() + used_;
  used_ += bytes;
  return place;
}

StatusOr<BoundPhase> bindPhase(const Plan &plan, const fb::Phase &phase,
                               uint32_t device,
                               std::span<const DeviceMemory> memories,
                               const WeightFiles &files) {
  std::string place =
      fmt::format("{}: phase {}", plan.path(), text(phase.name()));
  BoundPhase bound;
  PhaseBinder binder(plan.table(), phase, device, memories, files, bound);
  for (uint32_t i = 0; i < count(phase.instructions()); ++i)
    if (Status status = binder.add(i); !status.isOk())
      return std::move(status).at(
          fmt::format("{}, instruction {} ({})", place, i,
                      findOp(phase.instructions()->Get(i)->op())->name));
  bool hasEvents =
      std::ranges::any_of(bound.instructions, [](const BoundInstruction &i) {
        return (i.sync & BoundInstruction::kEvents) != 0;
      });
  if (!hasEvents)
    bound.events.clear();
  return bound;
}

} // namespace moert
