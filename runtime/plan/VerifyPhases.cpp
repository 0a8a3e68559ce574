#include "kernels/Activation.h"
#include "kernels/cuda/Limits.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Text.h"
#include "runtime/plan/Verify.h"
#include "runtime/plan/VerifyFields.h"
#include "runtime/schema/OpTable.h"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <string>
#include <vector>

namespace moert {

namespace {

Status verifyBuffer(const fb::Plan &plan, const fb::Phase &phase,
                    const fb::Buffer &buffer) {
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

/// The kind of operand that a role accepts, and their number in the plan.
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
  MOE_RETURN_IF_ERROR(
      verifyFields(plan, operand).at(fmt::format("operand {}", spec.name)));
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

/// Set of the places of weights, for queries by operand.
class Residents {
public:
  explicit Residents(const fb::Plan &plan) {
    for (uint32_t i = 0; i < count(plan.residency()); ++i) {
      const fb::Residency &entry = *plan.residency()->Get(i);
      keys_.push_back(key(entry.weight(), entry.device(), entry.mode()));
    }
    std::ranges::sort(keys_);
  }
  bool has(uint32_t weight, uint32_t device, fb::ResidencyMode mode) const {
    return std::ranges::binary_search(keys_, key(weight, device, mode));
  }
  bool streams(uint32_t weight, uint32_t device) const {
    return has(weight, device, fb::ResidencyMode::Streamed) ||
           has(weight, device, fb::ResidencyMode::Pinned);
  }

private:
  static uint64_t key(uint32_t weight, uint32_t device,
                      fb::ResidencyMode mode) {
    return uint64_t(weight) << 32 | uint64_t(device) << 2 | uint64_t(mode);
  }
  std::vector<uint64_t> keys_;
};

/// Verifies that only GEMMs of experts read streamed weights, that all of an
/// instruction's weights are streamed in the same way or none, and that there
/// are no gaps between their matrices.
Status verifyStreamed(const fb::Plan &plan, const Residents &residents,
                      const OpSpec &spec, const fb::Instruction &instruction) {
  uint32_t device = deviceOf(plan, instruction);
  bool isOfExperts = spec.op == moek::OpCode::ExpertsLinear ||
                     spec.op == moek::OpCode::ExpertsGateUp;
  uint32_t streamed = 0, pinned = 0, gemms = 0;
  for (uint32_t i = 0; i < spec.operands.size(); ++i) {
    const fb::Operand &operand = *instruction.operands()->Get(i);
    if (operand.kind() != fb::OperandKind::Weight)
      continue;
    gemms += spec.operands[i].gemm;
    if (!residents.streams(operand.index(), device))
      continue;
    std::string_view name = spec.operands[i].name;
    if (!isOfExperts || !spec.operands[i].gemm)
      return invalidPlan("operand {} is a weight that is streamed, which only "
                         "gemms of experts read",
                         name);
    const fb::Weight &w = *plan.weights()->Get(operand.index());
    int64_t rows = moek::storedRows(moek::Layout(w.layout()), w.rows());
    if (w.row_stride() != int64_t(rowBytesOf(w)) ||
        w.outer_stride() != rows * w.row_stride())
      return invalidPlan("operand {} is a weight that is streamed, and there "
                         "are gaps between its matrices",
                         name);
    ++streamed;
    pinned += residents.has(operand.index(), device, fb::ResidencyMode::Pinned);
  }
  if (streamed > 0 && streamed < gemms)
    return invalidPlan("{} of its {} weights are streamed", streamed, gemms);
  if (pinned > 0 && pinned < streamed)
    return invalidPlan("{} of its {} streamed weights are pinned", pinned,
                       streamed);
  return Status::ok();
}

/// Only a copy may access the memory of another device, and never its
/// per-worker memory.
Status verifyHome(const fb::Plan &plan, const fb::Phase &phase,
                  const Residents &residents, const OpSpec &spec,
                  const fb::Instruction &instruction) {
  uint32_t device = deviceOf(plan, instruction);
  for (uint32_t i = 0; i < spec.operands.size(); ++i) {
    const fb::Operand &operand = *instruction.operands()->Get(i);
    std::string_view name = spec.operands[i].name;
    switch (operand.kind()) {
    case fb::OperandKind::Buffer: {
      const fb::Buffer &buffer = *phase.buffers()->Get(operand.index());
      if (buffer.device() == device)
        break;
      if (spec.kind != OpKind::Copies)
        return invalidPlan("operand {} is on another device", name);
      if (buffer.per_worker())
        return invalidPlan("operand {} is per-worker memory of another device",
                           name);
      break;
    }
    case fb::OperandKind::Kv:
      if (plan.kv()->Get(operand.index())->device() != device)
        return invalidPlan("operand {} is on another device", name);
      break;
    case fb::OperandKind::Weight:
      if (spec.operands[i].byRows) {
        if (!residents.has(operand.index(), device, fb::ResidencyMode::File))
          return invalidPlan("operand {} is a weight that device {} does not "
                             "read from its file",
                             name, device);
      } else if (!residents.has(operand.index(), device,
                                fb::ResidencyMode::Resident) &&
                 !residents.streams(operand.index(), device)) {
        return invalidPlan("operand {} is a weight that device {} does not "
                           "have",
                           name, device);
      }
      break;
    case fb::OperandKind::None:
    case fb::OperandKind::Constant:
      break;
    }
  }
  return verifyStreamed(plan, residents, spec, instruction);
}

/// Operations per token far above those of any model, yet so small that sums
/// stay far below the range of a double.
constexpr double kMostOps = 1e18;

/// Verifies the work of an instruction whose operands passed: it cannot read
/// more bytes of weights than there are.
Status verifyWork(const fb::Plan &plan, const fb::Instruction &instruction,
                  const fb::Work &work) {
  double weights = 0;
  for (uint32_t i = 0; i < count(instruction.operands()); ++i)
    if (const fb::Operand &operand = *instruction.operands()->Get(i);
        operand.kind() == fb::OperandKind::Weight)
      weights += double(bytesOfRows(*plan.weights()->Get(operand.index())));
  return checkFields<fb::Work>([&](auto field) {
    const double value = field.of(work);
    const double most = field.name == "first_bytes" ? weights
                        : field.name == "again"     ? 1
                                                    : kMostOps;
    // The negated comparison also refuses NaN.
    if (!(value >= 0 && value <= most))
      return invalidPlan("has work with {} = {}, expected 0 to {}", field.name,
                         value, most);
    return Status::ok();
  });
}

/// Verifies that GPUs of some generation accept the launch; on an older one the
/// driver refuses it.
Status verifyLaunch(const fb::Plan &plan, const fb::Launch &launch) {
  MOE_RETURN_IF_ERROR(verifyFields(plan, launch));
  const uint32_t grid[] = {launch.grid_x(), launch.grid_y(), launch.grid_z()};
  for (int i = 0; i < 3; ++i)
    if (grid[i] < 1 || grid[i] > moek::cuda::kMaxGrid[i])
      return invalidPlan("launches a grid of {} x {} x {} blocks", grid[0],
                         grid[1], grid[2]);
  if (launch.threads() < 1 || launch.threads() > moek::cuda::kMaxThreads)
    return invalidPlan("launches blocks of {} threads", launch.threads());
  if (launch.shared_bytes() > moek::cuda::kMaxSharedBytes)
    return invalidPlan("launches blocks with {} bytes of shared memory",
                       launch.shared_bytes());
  return Status::ok();
}

Status verifyLaunches(const fb::Plan &plan,
                      const fb::Instruction &instruction) {
  uint32_t launches = count(instruction.launches());
  if (launches > kMaxLaunches)
    return invalidPlan("launches {} kernels, at most {} are allowed", launches,
                       kMaxLaunches);
  const fb::Device &device = *plan.devices()->Get(deviceOf(plan, instruction));
  if (launches > 0 && device.kind() != fb::DeviceKind::Cuda)
    return invalidPlan("launches kernels on {}, which is a CPU",
                       quoted(text(device.name())));
  for (uint32_t i = 0; i < launches; ++i)
    MOE_RETURN_IF_ERROR(verifyLaunch(plan, *instruction.launches()->Get(i)));
  return Status::ok();
}

Status verifyInstruction(const fb::Plan &plan, const fb::Phase &phase,
                         const Residents &residents,
                         const fb::Instruction &instruction) {
  const OpSpec *spec = findOp(instruction.op());
  if (!spec)
    return invalidPlan("has unknown op {}", instruction.op());
  MOE_RETURN_IF_ERROR(verifyFields(plan, instruction));
  if (plan.queues()->Get(instruction.queue())->kind() == fb::QueueKind::Copy &&
      spec->kind != OpKind::Copies)
    return invalidPlan("is in a queue of copies");
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
  MOE_RETURN_IF_ERROR(verifyLaunches(plan, instruction));
  for (uint32_t i = 0; i < spec->operands.size(); ++i)
    MOE_RETURN_IF_ERROR(verifyOperand(plan, phase, spec->operands[i],
                                      *instruction.operands()->Get(i)));
  for (uint32_t i = 0; i < spec->floats.size(); ++i)
    if (!std::isfinite(instruction.floats()->Get(i)))
      return invalidPlan("has {} = {}", spec->floats[i],
                         instruction.floats()->Get(i));
  if (const fb::Work *work = instruction.work())
    MOE_RETURN_IF_ERROR(verifyWork(plan, instruction, *work));
  uint32_t reasons = count(plan.explanation());
  if (instruction.explain() >= std::max(reasons, 1u))
    return invalidPlan("is explained by entry {} of {}", instruction.explain(),
                       reasons);
  return verifyHome(plan, phase, residents, *spec, instruction);
}

/// The events of a phase. They are numbered in the order of their signals, so
/// each is signalled once, and before any wait for it.
class Events {
public:
  Status visit(const fb::Instruction &instruction) {
    int64_t last = -1;
    for (uint32_t i = 0; i < count(instruction.waits()); ++i) {
      uint32_t event = instruction.waits()->Get(i);
      if (event >= queues_.size())
        return invalidPlan("waits for event {}, which no instruction before it "
                           "signals",
                           event);
      if (event <= last)
        return invalidPlan("waits for event {} after event {}", event, last);
      if (queues_[event] == instruction.queue())
        return invalidPlan("waits for event {} of its own queue", event);
      last = event;
    }
    if (instruction.signal() == -1)
      return Status::ok();
    if (instruction.signal() != int64_t(queues_.size()))
      return invalidPlan("signals event {}, but the next one is {}",
                         instruction.signal(), queues_.size());
    queues_.push_back(instruction.queue());
    return Status::ok();
  }
  Status finish(const fb::Phase &phase) const {
    if (phase.events() == queues_.size())
      return Status::ok();
    return invalidPlan("has {} events, but {} are signalled", phase.events(),
                       queues_.size());
  }

private:
  std::vector<uint32_t> queues_; ///< For each event: the queue that signals it.
};

std::string instructionPlace(uint32_t index,
                             const fb::Instruction &instruction) {
  const OpSpec *spec = findOp(instruction.op());
  return fmt::format("instruction {} ({})", index, spec ? spec->name : "?");
}

/// Verifies the buffers that the runtime itself writes and reads.
Status verifyInterface(const fb::Plan &plan, const fb::Phase &phase) {
  if (phase.input() >= count(phase.buffers()) ||
      phase.output() >= count(phase.buffers()))
    return invalidPlan("has input buffer {} and output buffer {} of {}",
                       phase.input(), phase.output(), count(phase.buffers()));
  const PhaseKind kind = kindOf(phase);
  const bool readsBoth = has(kind, kReadsTokens | kReadsHidden);
  if (readsBoth ? phase.hidden() < 0 ||
                      uint32_t(phase.hidden()) >= count(phase.buffers()) ||
                      uint32_t(phase.hidden()) == phase.input()
                : phase.hidden() != -1)
    return invalidPlan("has buffer {} of {} for hidden states; only a draft "
                       "phase has one, besides its input",
                       phase.hidden(), count(phase.buffers()));
  if (phase.with_head() &&
      (kind != PhaseKind::Decode || phase.max_tokens() != 1))
    return invalidPlan("computes logits for {} tokens; only a decode phase of "
                       "one token may do that",
                       phase.max_tokens());
  const bool readsTokens = has(kind, kReadsTokens);
  struct {
    std::string_view what;
    int64_t number;
    moek::Encoding encoding;
    int64_t perToken;
  } ends[] = {{"input", phase.input(),
               readsTokens ? moek::Encoding::I32 : moek::Encoding::F32,
               readsTokens ? 1 : plan.hidden()},
              {"input of hidden states", phase.hidden(), moek::Encoding::F32,
               plan.hidden()},
              {"output", phase.output(), moek::Encoding::F32,
               endsWithLogits(phase) ? logitsOf(plan) : plan.hidden()}};
  for (const auto &[what, number, encoding, perToken] : ends) {
    if (number < 0)
      continue;
    const fb::Buffer *buffer = phase.buffers()->Get(uint32_t(number));
    if (buffer->per_worker())
      return invalidPlan("has an {} in per-worker memory", what);
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

Status verifyPhase(const fb::Plan &plan, const fb::Phase &phase,
                   const Residents &residents) {
  MOE_RETURN_IF_ERROR(verifyFields(plan, phase));
  if (phase.min_tokens() < 1 || phase.max_tokens() < phase.min_tokens() ||
      phase.max_tokens() > kMaxUbatch)
    return invalidPlan("takes {} to {} tokens", phase.min_tokens(),
                       phase.max_tokens());
  // Any remainder of a prompt, and any number of sequences, must have a phase.
  const PhaseKind kind = kindOf(phase);
  const int32_t first = isBatch(kind) ? 2 : 1;
  if (!isPrefill(kind) && phase.min_tokens() > first)
    return invalidPlan("takes at least {} tokens, expected {}",
                       phase.min_tokens(), first);
  if (isBatch(kind) && phase.max_tokens() < plan.sequences())
    return invalidPlan("takes at most {} tokens, but the plan is for {} "
                       "sequences",
                       phase.max_tokens(), plan.sequences());
  if (count(phase.buffers()) > kMaxBuffers)
    return invalidPlan("has {} buffers, at most {} are allowed",
                       count(phase.buffers()), kMaxBuffers);
  if (count(phase.instructions()) > kMaxInstructions)
    return invalidPlan("has {} instructions, at most {} are allowed",
                       count(phase.instructions()), kMaxInstructions);
  MOE_RETURN_IF_ERROR(
      verifyEach(plan, phase.buffers(), "buffer",
                 [&](const fb::Plan &, const fb::Buffer &buffer, uint32_t) {
                   return verifyBuffer(plan, phase, buffer);
                 }));
  MOE_RETURN_IF_ERROR(verifyInterface(plan, phase));
  uint64_t regions = uint64_t(count(phase.buffers())) + count(plan.kv());
  if (count(phase.instructions()) * regions * count(plan.queues()) >
      kMaxHazardChecks)
    return invalidPlan("has {} instructions in {} queues over {} buffers and "
                       "caches, too many to check",
                       count(phase.instructions()), count(plan.queues()),
                       regions);
  Events events;
  for (uint32_t i = 0; i < count(phase.instructions()); ++i) {
    const fb::Instruction *instruction = phase.instructions()->Get(i);
    Status status = verifyInstruction(plan, phase, residents, *instruction);
    if (status.isOk())
      status = events.visit(*instruction);
    MOE_RETURN_IF_ERROR(
        std::move(status).at(instructionPlace(i, *instruction)));
  }
  return events.finish(phase);
}

} // namespace

Status verifyPhases(const fb::Plan &plan) {
  const fb::Phase *phases[std::size(kPhases)] = {};
  auto phase = [&](PhaseKind kind) -> const fb::Phase *& {
    return phases[size_t(kind)];
  };
  Residents residents(plan);
  for (uint32_t i = 0; i < count(plan.phases()); ++i) {
    const fb::Phase *one = plan.phases()->Get(i);
    std::optional<PhaseKind> kind = phaseKindOf(text(one->name()));
    if (!kind)
      return invalidPlan(
          "phase {} is named {}, expected one of {}", i,
          quoted(text(one->name())),
          fmt::join(kPhases | std::views::transform(&PhaseInfo::name), ", "));
    if (phase(*kind))
      return invalidPlan("there are two phases named {}", nameOf(*kind));
    phase(*kind) = one;
    MOE_RETURN_IF_ERROR(verifyPhase(plan, *one, residents)
                            .at(fmt::format("phase {}", nameOf(*kind))));
  }
  for (const PhaseInfo &info : kPhases)
    if (has(info.kind, kOfEveryToken) && !phase(info.kind))
      return invalidPlan("there is no phase named {}", info.name);
  const fb::Phase *prefill = phase(PhaseKind::Prefill),
                  *streamed = phase(PhaseKind::StreamedPrefill);
  if (streamed &&
      (!prefill || streamed->min_tokens() != prefill->max_tokens() + 1))
    return invalidPlan("phase streamed_prefill takes at least {} tokens, "
                       "expected one more than the most of phase prefill",
                       streamed->min_tokens());
  const bool hasDraft = phase(PhaseKind::Draft) != nullptr;
  if (hasDraft != (phase(PhaseKind::DraftLogits) != nullptr) ||
      hasDraft != (plan.mtp_layers() > 0))
    return invalidPlan(
        "has {} of phase draft: that phase, phase draft_logits "
        "and a layer for them belong together",
        counted(uint64_t(std::max(0, plan.mtp_layers())), "layer"));
  if (plan.sequences() > 1 && !phase(PhaseKind::Batch))
    return invalidPlan("is for {} sequences, but there is no phase named batch",
                       plan.sequences());
  return Status::ok();
}

} // namespace moert
