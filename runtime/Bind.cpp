#include "runtime/Bind.h"

#include "runtime/OpReader.h"
#include "runtime/Verify.h"

#include <algorithm>

namespace moert {

namespace {
/// By OpCode. Copy has no CPU kernel, because one device has nothing to copy.
constexpr Binder binders[moek::kOpCodeCount] = {
    bindEmbed,          bindRopeTable,     bindRmsNorm,
    bindQuantize,       bindLinear,        bindGateUp,
    bindSiluMul,        bindAdd,           bindRope,
    bindMlaLatent,      bindAbsorbQuery,   bindLatentAttention,
    bindHeadLinear,     bindMlaAttention,  bindRouter,
    bindExpertGroup,    bindExpertsLinear, bindExpertsGateUp,
    bindExpertsCombine, nullptr,           bindLatentCombine};

/// Binds the instructions of one phase.
class PhaseBinder {
public:
  PhaseBinder(const fb::Plan &plan, const fb::Phase &phase,
              const DeviceMemory &memory, const WeightFiles &files,
              ArgumentStore &arguments)
      : plan_(plan), phase_(phase), memory_(memory), files_(files),
        arguments_(arguments) {}

  StatusOr<BoundInstruction> bind(const fb::Instruction &instruction) {
    OwnBuffers own = ownBuffers(instruction);
    std::span<std::byte *const> workers = memory_.workers;
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

private:
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
    if (!binder)
      return invalidPlan("has no CPU kernel");
    OpReader reader(plan_, phase_, instruction, memory_, own, files_,
                    arguments_);
    BoundInstruction bound{reader.driver(), binder(reader),
                           instruction.barrier()};
    MOE_RETURN_IF_ERROR(reader.finish());
    return bound;
  }

  const fb::Plan &plan_;
  const fb::Phase &phase_;
  const DeviceMemory &memory_;
  const WeightFiles &files_;
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
                               const DeviceMemory &memory,
                               const WeightFiles &files) {
  std::string place =
      fmt::format("{}: phase {}", plan.path(), text(phase.name()));
  BoundPhase bound;
  bound.name = text(phase.name());
  bound.minTokens = phase.min_tokens();
  bound.maxTokens = phase.max_tokens();
  const auto &buffers = *phase.buffers();
  bound.input = memory.arena + buffers.Get(phase.input())->offset();
  bound.output = reinterpret_cast<float *>(
      memory.arena + buffers.Get(phase.output())->offset());
  bound.instructions.reserve(count(phase.instructions()));
  PhaseBinder binder(plan.table(), phase, memory, files, bound.arguments);
  for (uint32_t i = 0; i < count(phase.instructions()); ++i) {
    const fb::Instruction &instruction = *phase.instructions()->Get(i);
    StatusOr<BoundInstruction> result = binder.bind(instruction);
    if (!result)
      return result.status().at(fmt::format("{}, instruction {} ({})", place, i,
                                            findOp(instruction.op())->name));
    bound.instructions.push_back(*result);
  }
  MOE_RETURN_IF_ERROR(verifyDataflow(plan.table(), phase).at(place));
  return bound;
}

} // namespace moert
