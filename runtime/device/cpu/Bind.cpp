#include "runtime/device/cpu/Bind.h"

#include "kernels/Arguments.h"
#include "runtime/device/cpu/CpuOperands.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/prove/Prove.h"

#include <algorithm>
#include <utility>

namespace moert {

namespace {
/// Binds the instructions of one phase.
class PhaseBinder {
public:
  PhaseBinder(const fb::Plan &plan, const CpuMemory &memory,
              const WeightFiles &files, BoundPhase &bound)
      : plan_(plan), memory_(memory), files_(files), bound_(bound),
        arguments_(bound.arguments) {}

  /// Appends an instruction.
  Status add(const ProvenOp &op) {
    const fb::Instruction &instruction = op.instruction();
    MOE_ASSIGN_OR_RETURN(BoundInstruction result, bind(op));
    result.index = op.index();
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
  StatusOr<BoundInstruction> bind(const ProvenOp &op) {
    OwnBuffers own = ownBuffers(op);
    std::span<std::byte *const> workers = memory_.workers;
    if (own.used && workers.empty())
      return Status(StatusCode::Internal, "has buffers per worker, but was "
                                          "bound without workers");
    MOE_ASSIGN_OR_RETURN(BoundInstruction bound,
                         bind(op, own.used ? workers[0] : nullptr));
    bound.replicated = own.written;
    if (!own.used)
      return bound;
    auto **args = arguments_.makeArray<const void *>(workers.size());
    args[0] = bound.args;
    for (size_t i = 1; i < workers.size(); ++i) {
      MOE_ASSIGN_OR_RETURN(BoundInstruction other, bind(op, workers[i]));
      args[i] = other.args;
    }
    bound.ownArgs = args;
    return bound;
  }

  /// Returns whether an instruction uses and writes buffers of which each
  /// worker has a copy.
  struct OwnBuffers {
    bool used = false, written = false;
  };
  static OwnBuffers ownBuffers(const ProvenOp &op) {
    OwnBuffers own;
    for (const OperandSpec &operand : op.spec().operands) {
      if (operand.role != OperandRole::Read &&
          operand.role != OperandRole::Write &&
          operand.role != OperandRole::ReadWrite)
        continue;
      if (!op.has(operand.name) || !op.buffer(operand.name).per_worker())
        continue;
      own.used = true;
      own.written |= operand.role != OperandRole::Read;
    }
    return own;
  }

  StatusOr<BoundInstruction> bind(const ProvenOp &op, std::byte *own) {
    CpuOperands operands(plan_, op, memory_, own, files_);
    BoundInstruction bound{operands.opKernel(), nullptr};
    bound.args =
        moek::withArguments(op.spec().op, operands, [&](const auto &args) {
          return arguments_.keep(args);
        });
    operands.checkScratch();
    MOE_RETURN_IF_ERROR(operands.finish());
    return bound;
  }

  const fb::Plan &plan_;
  const CpuMemory &memory_;
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

StatusOr<BoundPhase> bindPhase(const Plan &plan, const ProvenPhase &phase,
                               uint32_t device, const CpuMemory &memory,
                               const WeightFiles &files) {
  BoundPhase bound;
  PhaseBinder binder(plan.table(), memory, files, bound);
  for (const ProvenOp &op : phase.ops)
    if (op.device() == device)
      if (Status status = binder.add(op); !status.isOk())
        return std::move(status).at(placeOf(plan, *phase.phase, op.index()));
  bool hasEvents =
      std::ranges::any_of(bound.instructions, [](const BoundInstruction &i) {
        return (i.sync & BoundInstruction::kEvents) != 0;
      });
  if (!hasEvents)
    bound.events.clear();
  return bound;
}

} // namespace moert
