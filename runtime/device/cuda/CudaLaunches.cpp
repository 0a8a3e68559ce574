#include "runtime/device/cuda/CudaLaunches.h"

#include "kernels/Arguments.h"
#include "kernels/cuda/Fuse.h"
#include "runtime/device/Devices.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/prove/Prove.h"

#include <algorithm>
#include <set>
#include <utility>

namespace moert {

namespace {
/// From this compute capability on, compiled kernels wait for the launch before
/// them by themselves (kernels/cuda/LaunchOrder.cuh).
constexpr int kLaunchOrderArch = 90;

class Binder {
public:
  Binder(const CudaDriver &driver, const fb::Plan &plan, const fb::Phase &phase,
         const fb::Device &device, const CudaMemory &memory,
         const CudaWeights &weights, const CudaModules &modules,
         const CudaLinks &links, StepEvents *events)
      : driver_(driver), plan_(plan), phase_(phase), memory_(memory),
        weights_(weights), modules_(modules), links_(links), events_(events),
        workspaceBytes_(device.workspace_bytes()),
        context_(moek::cuda::contextOf(phase.max_tokens(), plan.sequences(),
                                       plan.context(), device.arch(),
                                       device.multiprocessors())) {
    context_.workspace =
        reinterpret_cast<std::byte *>(uintptr_t(memory.workspace));
  }

  Status add(const ProvenOp &op, CudaPart &part) {
    const fb::Instruction &instruction = op.instruction();
    MOE_ASSIGN_OR_RETURN(std::vector<moek::cuda::Launch> launches,
                         launchesOf(op));
    addSegment(instruction, part);
    std::vector<moek::cuda::Fusible> &parts = open_[instruction.queue()].parts;
    bool isOpen = count(instruction.launches()) == 0;
    if (isOpen || !parts.empty()) {
      if (launches.size() != 1 || (isOpen && instruction.signal() >= 0))
        return launchMismatch();
      parts.push_back({launches[0], usesOf(op)});
    }
    open_[instruction.queue()].members.push_back(op.index());
    addWeights(op, open_[instruction.queue()]);
    if (isOpen) // The launch of a later instruction includes it.
      return Status::ok();
    if (!parts.empty()) {
      std::optional<moek::cuda::Launch> all = moek::cuda::fuse(parts, context_);
      if (!all)
        return launchMismatch();
      launches = {*std::move(all)};
    }
    MOE_RETURN_IF_ERROR(checkLaunches(instruction, launches));
    CudaSegment &segment = part.segments.back();
    for (uint32_t i = 0; i < launches.size(); ++i) {
      uint32_t module = instruction.launches()->Get(i)->module_();
      MOE_ASSIGN_OR_RETURN(
          CudaLaunch launch,
          bind(launches[i], modules_.function(module), op.index()));
      launch.awaitsLaunch = modules_.arch(module) >= kLaunchOrderArch;
      const std::vector<moek::cuda::HostCopy> &copies = launches[i].copies;
      if (!copies.empty()) {
        part.copies.insert(part.copies.end(), copies.begin(), copies.end());
        part.isWalked = segment.isRefused = true;
      }
      launch.copies = copies.size();
      launch.copiesFirst = launches[i].copiesFirst;
      part.launches.push_back(std::move(launch));
      ++segment.count;
    }
    Open ended = std::exchange(open_[instruction.queue()], {});
    CudaLaunch &first = part.launches[part.launches.size() - launches.size()];
    first.weights = std::move(ended.weights);
    first.otherBytes = ended.otherBytes;
    for (const CudaLink &link : links_.all())
      if (link.phase == &phase_ &&
          std::ranges::count(ended.members, link.writer)) {
        part.launches.push_back(sending(link));
        ++segment.count;
      }
    return Status::ok();
  }

  /// Checks that no instruction still waits for a launch to include it.
  Status finish() const {
    for (const auto &[queue, open] : open_)
      if (!open.members.empty())
        return launchMismatch();
    return Status::ok();
  }

private:
  /// Instructions of a queue that the next launch includes, and the launch that
  /// each would need by itself. Empty if the instructions are not fused.
  struct Open {
    std::vector<uint32_t> members;
    std::vector<moek::cuda::Fusible> parts;
    std::vector<moek::cuda::Prefetch> weights; ///< As in CudaLaunch.
    uint64_t otherBytes = 0;
  };

  /// Adds the resident weights that `op` reads: in whole, or those of as many
  /// experts as a step may choose.
  void addWeights(const ProvenOp &op, Open &open) const {
    using moek::OpCode;
    const OpCode code = op.spec().op;
    const bool isWhole = code == OpCode::Linear || code == OpCode::GateUp ||
                         code == OpCode::HeadLinear ||
                         code == OpCode::AbsorbQuery;
    const bool isOfExperts =
        code == OpCode::ExpertsLinear || code == OpCode::ExpertsGateUp;
    if (!isWhole && !isOfExperts)
      return;
    for (const fb::Operand *operand : *op.instruction().operands()) {
      if (operand->kind() != fb::OperandKind::Weight ||
          !weights_.has(operand->index()))
        continue;
      const fb::Weight &weight = *plan_.weights()->Get(operand->index());
      const uint64_t bytes = extentOf(weight).bytes;
      if (isWhole)
        open.weights.push_back(
            {reinterpret_cast<const uint8_t *>(uintptr_t(
                 memory_.weights + weights_.offset(operand->index()))),
             bytes});
      else
        open.otherBytes += bytes / uint64_t(weight.outer()) *
                           std::min(uint64_t(op.integer("top_k")) *
                                        uint64_t(phase_.max_tokens()),
                                    uint64_t(weight.outer()));
    }
  }

  /// Begins a segment if the queue waits for others here or has just signalled.
  void addSegment(const fb::Instruction &instruction, CudaPart &part) {
    uint32_t waits = count(instruction.waits());
    if (part.segments.empty() || waits > 0 ||
        part.segments.back().signal >= 0) {
      CudaSegment segment;
      segment.first = part.launches.size();
      for (uint32_t i = 0; i < waits; ++i)
        segment.waits.push_back(instruction.waits()->Get(i));
      part.segments.push_back(std::move(segment));
    }
    CudaSegment &segment = part.segments.back();
    segment.signal = instruction.signal();
    if (segment.signal >= 0)
      events_->setSignalledByFlag(uint32_t(segment.signal));
    if (waits > 0 || segment.signal >= 0)
      part.events = events_;
  }

  /// Returns the ranges of arenas and caches that `op` reads and writes.
  std::vector<moek::cuda::Use> usesOf(const ProvenOp &op) const {
    std::vector<moek::cuda::Use> uses;
    const fb::Instruction &instruction = op.instruction();
    for (uint32_t i = 0; i < op.spec().operands.size(); ++i) {
      const fb::Operand &operand = *instruction.operands()->Get(i);
      OperandRole role = op.spec().operands[i].role;
      bool writes = role == OperandRole::Write ||
                    role == OperandRole::ReadWrite ||
                    role == OperandRole::KvWrite;
      if (operand.kind() == fb::OperandKind::Buffer) {
        const fb::Buffer &buffer = *phase_.buffers()->Get(operand.index());
        DeviceRegion region = regionOf(buffer, phase_.max_tokens());
        uses.push_back({buffer.device(), region.offset,
                        region.offset + region.bytes, writes});
      } else if (operand.kind() == fb::OperandKind::Kv) {
        // Caches of different layers do not overlap.
        uses.push_back({kCaches + operand.index(), 0, 1, writes});
      }
    }
    return uses;
  }
  static constexpr uint64_t kCaches = uint64_t(1) << 32;

  /// Returns the form of its GEMMs, which are alike (ensured by plan-launches).
  moek::cuda::GemmForm formOf(const fb::Instruction &instruction) const {
    for (uint32_t i = 1; i < count(instruction.kernels()); ++i)
      if (const moek::GemmInfo *gemm = moek::findGemm(
              text(plan_.kernels()->Get(instruction.kernels()->Get(i)))))
        return {gemm->activation, gemm->layout};
    return {};
  }

  StatusOr<std::vector<moek::cuda::Launch>> launchesOf(const ProvenOp &op) {
    context_.form = formOf(op.instruction());
    const CudaWeights::Streaming streaming =
        weights_.streamingOf(plan_, op.instruction());
    context_.parts = streaming.parts;
    context_.pinned = streaming.pinned;
    context_.step = reinterpret_cast<const moek::cuda::Step *>(
        uintptr_t(memory_.steps.at(op.instruction().queue())));
    cu::DevicePointer received = 0;
    for (const CudaLink &link : links_.all())
      if (link.phase == &phase_ && link.copy == op.index())
        received = memory_.links + link.offset;
    CudaOperands operands(plan_, op, memory_, weights_, received);
    moek::OpCode code = op.spec().op;
    std::vector<moek::cuda::Launch> launches;
    uint64_t workspace = 0;
    moek::withArguments(code, operands, [&](const auto &args) {
      launches = moek::cuda::launchesOf(code, &args, context_);
      workspace = uint64_t(moek::cuda::workspaceBytes(code, &args, context_));
    });
    MOE_RETURN_IF_ERROR(operands.finish());
    if (workspace > workspaceBytes_)
      return invalidPlan("needs {} bytes of workspace, the plan gives {}: it "
                         "was compiled by another moec; compile the model "
                         "again",
                         workspace, workspaceBytes_);
    return launches;
  }

  /// Checks that `launches` are those that the plan has kernels for.
  Status checkLaunches(const fb::Instruction &instruction,
                       const std::vector<moek::cuda::Launch> &launches) const {
    auto isSame = [&](uint32_t i) {
      const fb::Launch &planned = *instruction.launches()->Get(i);
      const moek::cuda::Launch &launch = launches[i];
      return text(plan_.modules()->Get(planned.module_())->entry()) ==
                 launch.kernel.entry &&
             planned.grid_x() == launch.grid[0] &&
             planned.grid_y() == launch.grid[1] &&
             planned.grid_z() == launch.grid[2] &&
             planned.threads() == launch.threads &&
             planned.shared_bytes() == launch.sharedBytes;
    };
    bool same = count(instruction.launches()) == launches.size();
    for (uint32_t i = 0; same && i < launches.size(); ++i)
      same = isSame(i);
    return same ? Status::ok() : launchMismatch();
  }
  static Status launchMismatch() {
    return invalidPlan("needs other launches than the plan has, which was "
                       "compiled by another moec; compile the model again");
  }

  /// Returns the copy to the pages from which the other GPU's copy reads.
  CudaLaunch sending(const CudaLink &link) const {
    CudaLaunch launch;
    launch.instruction = link.writer;
    launch.to = links_.pages().data() + link.offset;
    launch.from = memory_.arenas[link.from] + link.source;
    launch.bytes = link.bytes;
    return launch;
  }

  StatusOr<CudaLaunch> bind(const moek::cuda::Launch &launch,
                            cu::Function function, uint32_t instruction) {
    CudaLaunch bound;
    bound.function = function;
    std::copy(std::begin(launch.grid), std::end(launch.grid),
              bound.grid.begin());
    bound.threads = launch.threads;
    bound.sharedBytes = launch.sharedBytes;
    bound.instruction = instruction;
    bound.args = launch.args;
    bound.canAwait = moek::cuda::canAwait(launch);
    bound.canSignal = moek::cuda::canSignal(launch);
    bound.canPrefetch = moek::cuda::canPrefetch(launch);
    uint32_t &allowed = shared_[function];
    // More than 48 KiB must be asked for, static memory included, which only
    // the driver knows.
    if (launch.sharedBytes > allowed) {
      allowed = launch.sharedBytes;
      MOE_RETURN_IF_ERROR(driver_.check(
          driver_.api().cuFuncSetAttribute(function, cu::kMaxDynamicSharedBytes,
                                           int(allowed)),
          fmt::format("asking for {} bytes of shared memory a block",
                      allowed)));
    }
    return bound;
  }

  const CudaDriver &driver_;
  const fb::Plan &plan_;
  const fb::Phase &phase_;
  const CudaMemory &memory_;
  const CudaWeights &weights_;
  const CudaModules &modules_;
  const CudaLinks &links_;
  StepEvents *const events_;
  const uint64_t workspaceBytes_;
  moek::cuda::LaunchContext context_;
  std::map<cu::Function, uint32_t> shared_;
  std::map<uint32_t, Open> open_; ///< By queue.
};
} // namespace

/// Returns whether a single queue has all instructions of GPUs in a phase.
static bool hasOneGpuQueue(const fb::Plan &plan, const ProvenPhase &phase) {
  std::set<uint32_t> queues;
  for (const ProvenOp &op : phase.ops)
    if (plan.devices()->Get(op.device())->kind() == fb::DeviceKind::Cuda)
      queues.insert(op.instruction().queue());
  return queues.size() == 1;
}

StatusOr<CudaPhase> bindCudaPhase(const CudaDriver &driver, const Plan &plan,
                                  const ProvenPhase &phase, uint32_t device,
                                  const CudaMemory &memory,
                                  const CudaWeights &weights,
                                  const CudaModules &modules,
                                  const CudaLinks &links, StepEvents *events,
                                  cu::DevicePointer board) {
  Binder binder(driver, plan.table(), *phase.phase,
                *plan.table().devices()->Get(device), memory, weights, modules,
                links, events);
  CudaPhase bound;
  for (const ProvenOp &op : phase.ops)
    if (op.device() == device)
      if (Status status = binder.add(op, bound[op.instruction().queue()]);
          !status.isOk())
        return std::move(status).at(placeOf(plan, *phase.phase, op.index()));
  MOE_RETURN_IF_ERROR(binder.finish());
  for (auto &[queue, part] : bound) {
    part.board = board;
    part.isOnly = hasOneGpuQueue(plan.table(), phase);
  }
  return bound;
}

} // namespace moert
