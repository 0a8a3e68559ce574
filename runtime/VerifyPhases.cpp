#include "kernels/Activation.h"
#include "runtime/PlanAccess.h"
#include "runtime/Verify.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/schema/OpTable.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace moert {

namespace {

Status verifyBuffer(const fb::Plan &plan, const fb::Phase &phase,
                    const fb::Buffer &buffer) {
  if (buffer.device() >= count(plan.devices()))
    return invalidPlan("is on device {} of {}", buffer.device(),
                       count(plan.devices()));
  if (buffer.encoding() > uint8_t(moek::Encoding::A8K))
    return invalidPlan("has unknown encoding {}", buffer.encoding());
  auto encoding = moek::Encoding(buffer.encoding());
  if (buffer.cols() < 1 || buffer.cols() >= kMaxDimension)
    return invalidPlan("has {} columns", buffer.cols());
  if (moek::isA8(encoding) && buffer.cols() % moek::kA8Block)
    return invalidPlan("has {} columns of 8-bit activations, not a multiple of "
                       "{}",
                       buffer.cols(), moek::kA8Block);
  if (buffer.rows_per_token() < 0 || buffer.fixed_rows() < 0)
    return invalidPlan("has {} rows per token and {} fixed rows",
                       buffer.rows_per_token(), buffer.fixed_rows());
  Checked rows =
      Checked(buffer.rows_per_token()) * Checked(uint64_t(phase.max_tokens())) +
      Checked(buffer.fixed_rows());
  Checked perToken =
      Checked(buffer.rows_per_token()) * Checked(uint64_t(buffer.cols()));
  if (!rows.valid() || rows.value() < 1 || rows.value() >= kMaxDimension ||
      !perToken.valid() || perToken.value() >= kMaxDimension)
    return invalidPlan("has {} rows per token, {} fixed rows and {} columns, "
                       "which makes no buffer",
                       buffer.rows_per_token(), buffer.fixed_rows(),
                       buffer.cols());
  if (buffer.offset() % kRegionAlignment)
    return invalidPlan("has offset {}, not a multiple of {}", buffer.offset(),
                       kRegionAlignment);
  Checked end = Checked(buffer.offset()) +
                rows * Checked(moek::encodedRowBytes(encoding, buffer.cols()));
  const fb::Device &device = *plan.devices()->Get(buffer.device());
  uint64_t arena =
      buffer.per_worker() ? device.worker_bytes() : device.arena_bytes();
  if (!end.valid() || end.value() > arena)
    return invalidPlan("at offset {} with {} rows of {} columns ends beyond "
                       "the device's arena of {} bytes{}",
                       buffer.offset(), rows.value(), buffer.cols(), arena,
                       buffer.per_worker() ? " per worker" : "");
  return Status::ok();
}

/// What a role accepts, and how many of them the plan has.
struct Domain {
  fb::OperandKind kind;
  uint32_t size;
};

Domain domainOf(const fb::Plan &plan, const fb::Phase &phase,
                OperandRole role) {
  switch (role) {
  case OperandRole::Read:
  case OperandRole::Write:
  case OperandRole::ReadWrite:
    return {fb::OperandKind::Buffer, count(phase.buffers())};
  case OperandRole::Weight:
    return {fb::OperandKind::Weight, count(plan.weights())};
  case OperandRole::KvRead:
  case OperandRole::KvWrite:
    return {fb::OperandKind::Kv, count(plan.kv())};
  case OperandRole::Constant:
    return {fb::OperandKind::Constant, count(plan.constants())};
  }
  return {fb::OperandKind::None, 0};
}

Status verifyOperand(const fb::Plan &plan, const fb::Phase &phase,
                     const OperandSpec &spec, const fb::Operand &operand) {
  if (operand.kind() > fb::OperandKind::MAX)
    return invalidPlan("operand {} has unknown kind {}", spec.name,
                       int(operand.kind()));
  if (operand.kind() == fb::OperandKind::None && spec.optional)
    return Status::ok();
  Domain domain = domainOf(plan, phase, spec.role);
  if (operand.kind() != domain.kind)
    return invalidPlan("operand {} is a {}, expected a {}", spec.name,
                       fb::EnumNameOperandKind(operand.kind()),
                       fb::EnumNameOperandKind(domain.kind));
  if (operand.index() >= domain.size)
    return invalidPlan("operand {} is {} {} of {}", spec.name,
                       fb::EnumNameOperandKind(domain.kind), operand.index(),
                       domain.size);
  return Status::ok();
}

/// The flatbuffer verifier checks the alignment of a vector's length only.
template <class T> bool aligned(const flatbuffers::Vector<T> *vector) {
  return !vector ||
         reinterpret_cast<uintptr_t>(vector->Data()) % alignof(T) == 0;
}

Status verifyInstruction(const fb::Plan &plan, const fb::Phase &phase,
                         const fb::Instruction &instruction) {
  const OpSpec *spec = findOp(instruction.op());
  if (!spec)
    return invalidPlan("has unknown op {}", instruction.op());
  if (instruction.device() >= count(plan.devices()))
    return invalidPlan("is on device {} of {}", instruction.device(),
                       count(plan.devices()));
  for (uint32_t i = 0; i < count(instruction.kernels()); ++i)
    if (instruction.kernels()->Get(i) >= count(plan.kernels()))
      return invalidPlan("uses kernel {} of {}", instruction.kernels()->Get(i),
                         count(plan.kernels()));
  struct {
    std::string_view what;
    size_t actual, expected;
  } counts[] = {
      {"operands", count(instruction.operands()), spec->operands.size()},
      {"integers", count(instruction.ints()), spec->ints.size()},
      {"floats", count(instruction.floats()), spec->floats.size()}};
  for (auto [what, actual, expected] : counts)
    if (actual != expected)
      return invalidPlan("has {} {}, expected {}", actual, what, expected);
  if (!aligned(instruction.ints()) || !aligned(instruction.floats()))
    return invalidPlan("has parameters at misaligned offsets");
  for (uint32_t i = 0; i < spec->operands.size(); ++i)
    MOE_RETURN_IF_ERROR(verifyOperand(plan, phase, spec->operands[i],
                                      *instruction.operands()->Get(i)));
  for (uint32_t i = 0; i < spec->floats.size(); ++i)
    if (!std::isfinite(instruction.floats()->Get(i)))
      return invalidPlan("has {} = {}", spec->floats[i],
                         instruction.floats()->Get(i));
  uint32_t reasons = count(plan.explanation());
  if (instruction.explain() >= std::max(reasons, 1u))
    return invalidPlan("is explained by entry {} of {}", instruction.explain(),
                       reasons);
  return Status::ok();
}

std::string instructionPlace(uint32_t index,
                             const fb::Instruction &instruction) {
  const OpSpec *spec = findOp(instruction.op());
  return fmt::format("instruction {} ({})", index, spec ? spec->name : "?");
}

/// The buffers that the runtime itself fills and reads.
Status verifyInterface(const fb::Plan &plan, const fb::Phase &phase) {
  if (phase.input() >= count(phase.buffers()) ||
      phase.output() >= count(phase.buffers()))
    return invalidPlan("has input buffer {} and output buffer {} of {}",
                       phase.input(), phase.output(), count(phase.buffers()));
  bool isHead = text(phase.name()) == "logits";
  struct {
    std::string_view what;
    const fb::Buffer *buffer;
    moek::Encoding encoding;
    int64_t perToken;
  } ends[] = {{"input", phase.buffers()->Get(phase.input()),
               isHead ? moek::Encoding::F32 : moek::Encoding::I32,
               isHead ? plan.hidden() : 1},
              {"output", phase.buffers()->Get(phase.output()),
               moek::Encoding::F32, isHead ? plan.vocab() : plan.hidden()}};
  for (const auto &[what, buffer, encoding, perToken] : ends) {
    if (buffer->per_worker())
      return invalidPlan("has an {} of which each worker has its own", what);
    if (buffer->encoding() != uint8_t(encoding) ||
        buffer->rows_per_token() * buffer->cols() != perToken)
      return invalidPlan("has an {} of encoding {} with {} elements per token, "
                         "expected encoding {} with {}",
                         what, buffer->encoding(),
                         buffer->rows_per_token() * buffer->cols(),
                         int(encoding), perToken);
  }
  return Status::ok();
}

Status verifyPhase(const fb::Plan &plan, const fb::Phase &phase) {
  if (phase.min_tokens() < 1 || phase.max_tokens() < phase.min_tokens() ||
      phase.max_tokens() > kMaxUbatch)
    return invalidPlan("takes {} to {} tokens", phase.min_tokens(),
                       phase.max_tokens());
  // Any remainder of a prompt, and any count of sequences, must have a phase.
  bool isBatch = text(phase.name()) == "batch";
  if (text(phase.name()) != "prefill" && phase.min_tokens() > (isBatch ? 2 : 1))
    return invalidPlan("takes at least {} tokens, expected {}",
                       phase.min_tokens(), isBatch ? 2 : 1);
  if (isBatch && phase.max_tokens() < plan.sequences())
    return invalidPlan("takes at most {} tokens, but the plan is for {} "
                       "sequences",
                       phase.max_tokens(), plan.sequences());
  if (count(phase.buffers()) > kMaxBuffers)
    return invalidPlan("has {} buffers, at most {} are allowed",
                       count(phase.buffers()), kMaxBuffers);
  if (count(phase.instructions()) > kMaxInstructions)
    return invalidPlan("has {} instructions, at most {} are allowed",
                       count(phase.instructions()), kMaxInstructions);
  for (uint32_t i = 0; i < count(phase.buffers()); ++i) {
    const fb::Buffer *buffer = phase.buffers()->Get(i);
    MOE_RETURN_IF_ERROR(
        verifyBuffer(plan, phase, *buffer)
            .at(fmt::format("buffer {} {}", i, quoted(text(buffer->name())))));
  }
  MOE_RETURN_IF_ERROR(verifyInterface(plan, phase));
  for (uint32_t i = 0; i < count(phase.instructions()); ++i) {
    const fb::Instruction *instruction = phase.instructions()->Get(i);
    MOE_RETURN_IF_ERROR(verifyInstruction(plan, phase, *instruction)
                            .at(instructionPlace(i, *instruction)));
  }
  return Status::ok();
}

} // namespace

Status verifyPhases(const fb::Plan &plan) {
  constexpr std::string_view names[] = {"decode", "prefill", "logits", "batch"};
  bool seen[std::size(names)] = {};
  for (uint32_t i = 0; i < count(plan.phases()); ++i) {
    const fb::Phase *phase = plan.phases()->Get(i);
    size_t which =
        std::find(std::begin(names), std::end(names), text(phase->name())) -
        std::begin(names);
    if (which == std::size(names))
      return invalidPlan("phase {} is named {}, expected decode, prefill, "
                         "batch or logits",
                         i, quoted(text(phase->name())));
    if (seen[which])
      return invalidPlan("there are two phases named {}", names[which]);
    seen[which] = true;
    MOE_RETURN_IF_ERROR(
        verifyPhase(plan, *phase).at(fmt::format("phase {}", names[which])));
  }
  if (!seen[0] || !seen[2])
    return invalidPlan("there is no phase named {}",
                       seen[0] ? "logits" : "decode");
  if (plan.sequences() > 1 && !seen[3])
    return invalidPlan("is for {} sequences, but there is no phase named batch",
                       plan.sequences());
  return Status::ok();
}

} // namespace moert
