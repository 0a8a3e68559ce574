#include "runtime/Bind.h"

#include "runtime/OpReader.h"
#include "runtime/Verify.h"

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

StatusOr<BoundInstruction> bindInstruction(const fb::Instruction &instruction,
                                           OpReader reader) {
  Binder binder = binders[instruction.op()];
  if (!binder)
    return invalidPlan("has no CPU kernel");
  BoundInstruction bound{reader.driver(), binder(reader),
                         instruction.barrier()};
  MOE_RETURN_IF_ERROR(reader.finish());
  return bound;
}
} // namespace

void *ArgumentStore::allocate(size_t bytes) {
  bytes = (bytes + 15) / 16 * 16;
  if (used_ + bytes > kChunkBytes) {
    chunks_.push_back(std::make_unique<std::byte[]>(kChunkBytes));
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
  for (uint32_t i = 0; i < count(phase.instructions()); ++i) {
    const fb::Instruction &instruction = *phase.instructions()->Get(i);
    StatusOr<BoundInstruction> result =
        bindInstruction(instruction, OpReader(plan.table(), phase, instruction,
                                              memory, files, bound.arguments));
    if (!result)
      return result.status().at(fmt::format("{}, instruction {} ({})", place, i,
                                            findOp(instruction.op())->name));
    bound.instructions.push_back(*result);
  }
  MOE_RETURN_IF_ERROR(verifyDataflow(plan.table(), phase).at(place));
  return bound;
}

} // namespace moert
