#include "test/support/GpuPlan.h"

#include "kernels/Arguments.h"
#include "kernels/KvCache.h"
#include "kernels/cuda/Fuse.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/schema/OpTable.h"
#include "test/support/SplitPlan.h"

#include <algorithm>
#include <map>
#include <stdexcept>

namespace moetest {

namespace {
/// The operands of an instruction as kernels/Arguments.h expects them, without
/// addresses.
class Operands {
public:
  Operands(const fb::PlanT &plan, const fb::PhaseT &phase,
           const fb::InstructionT &instruction)
      : plan_(plan), phase_(phase), instruction_(instruction),
        spec_(*moert::findOp(instruction.op)) {}

  int32_t integer(std::string_view name) const {
    return int32_t(instruction_.ints[size_t(
        std::ranges::find(spec_.ints, name) - spec_.ints.begin())]);
  }
  float real(std::string_view name) const {
    return float(instruction_.floats[size_t(
        std::ranges::find(spec_.floats, name) - spec_.floats.begin())]);
  }
  bool has(std::string_view name) const {
    return operand(name).kind() != fb::OperandKind::None;
  }
  uint8_t *bytes(std::string_view) const { return nullptr; }
  int64_t cols(std::string_view name) const { return buffer(name).cols; }
  int64_t rowsPerToken(std::string_view name) const {
    return buffer(name).rows_per_token;
  }
  int64_t fixedRows(std::string_view name) const {
    return buffer(name).fixed_rows;
  }
  moek::Encoding encoding(std::string_view name) const {
    return moek::Encoding(buffer(name).encoding);
  }
  std::span<const float> constant(std::string_view name) const {
    return plan_.constants[operand(name).index()]->values;
  }
  moek::WeightView weight(std::string_view name) const {
    const fb::WeightT &w = *plan_.weights[operand(name).index()];
    return {nullptr,
            w.outer,
            w.rows,
            w.cols,
            w.outer_stride,
            w.row_stride,
            moek::Format(w.format)};
  }
  moek::KvView cache(std::string_view name) const {
    const fb::KvT &kv = *plan_.kv[operand(name).index()];
    auto type = moek::KvType(kv.type);
    return {nullptr, kv.width, kv.capacity, moek::kvRowBytes(type, kv.width),
            type};
  }
  moek::GemmFn gemm(std::string_view) const { return moek::cuda::gemmOnGpu(); }
  moek::Encoding gemmEncoding(std::string_view) const {
    return moek::Encoding::F32;
  }

private:
  const fb::Operand &operand(std::string_view name) const {
    auto found =
        std::ranges::find(spec_.operands, name, &moert::OperandSpec::name);
    return instruction_.operands[size_t(found - spec_.operands.begin())];
  }
  const fb::BufferT &buffer(std::string_view name) const {
    return *phase_.buffers[operand(name).index()];
  }

  const fb::PlanT &plan_;
  const fb::PhaseT &phase_;
  const fb::InstructionT &instruction_;
  const moert::OpSpec &spec_;
};

uint32_t kernelOf(fb::PlanT &plan, const std::string &name) {
  auto found = std::ranges::find(plan.kernels, name);
  if (found == plan.kernels.end())
    found = plan.kernels.insert(found, name);
  return uint32_t(found - plan.kernels.begin());
}
} // namespace

/// Returns the receiver's queue if a copy is between two GPUs, else the queue
/// that does all copies.
static uint32_t copyQueueOf(const fb::PlanT &plan, const fb::PhaseT &phase,
                            const fb::InstructionT &copy, uint32_t queue) {
  auto deviceOf = [&](size_t k) {
    return phase.buffers[copy.operands[k].index()]->device;
  };
  for (size_t k : {0, 1})
    if (plan.devices[deviceOf(k)]->kind != fb::DeviceKind::Cuda)
      return queue;
  return deviceOf(1);
}

void makeGpu(fb::PlanT &plan, uint32_t device, int arch, uint32_t copyQueue) {
  fb::DeviceT &gpu = *plan.devices[device];
  gpu.name = "gpu" + std::to_string(device);
  gpu.kind = fb::DeviceKind::Cuda;
  gpu.isa = "cuda";
  gpu.arch = arch;
  gpu.cores = 1;
  gpu.scratch_bytes = gpu.worker_bytes = 0;
  gpu.multiprocessors = 4;
  for (auto &phase : plan.phases)
    for (auto &instruction : phase->instructions) {
      if (plan.devices.size() > 1 &&
          instruction->op == uint8_t(moek::OpCode::Copy))
        instruction->queue = copyQueueOf(plan, *phase, *instruction, copyQueue);
      if (plan.queues[instruction->queue]->device != device)
        continue;
      for (size_t i = 0; i < instruction->kernels.size(); ++i) {
        std::string name = plan.kernels[instruction->kernels[i]];
        name.resize(name.rfind('_'));
        instruction->kernels[i] = kernelOf(plan, name + "_cuda");
      }
    }
  if (plan.devices.size() > 1)
    for (auto &phase : plan.phases)
      orderQueues(plan, *phase);
}

/// Sets how the weights of an instruction are streamed.
static void setParts(const fb::PlanT &plan, const fb::InstructionT &instruction,
                     moek::cuda::LaunchContext &context) {
  int64_t bytes = 0, experts = 0;
  for (const fb::Operand &operand : instruction.operands)
    for (const fb::Residency &entry : plan.residency)
      if (operand.kind() == fb::OperandKind::Weight &&
          entry.weight() == operand.index() &&
          entry.device() == plan.queues[instruction.queue]->device &&
          moert::isStreamed(entry.mode())) {
        context.pinned = entry.mode() == fb::ResidencyMode::Pinned;
        const fb::WeightT &w = *plan.weights[entry.weight()];
        experts = w.outer;
        bytes += w.outer * w.outer_stride;
      }
  if (experts)
    context.parts = moek::cuda::streamedParts(bytes, experts);
}

namespace {
/// A queue's last instruction, and the ones that its launch includes.
struct Group {
  fb::InstructionT *last = nullptr;
  bool waits = false, canAwait = false;
  std::vector<moek::cuda::Fusible> parts;
};

std::vector<moek::cuda::Use> usesOf(const fb::PlanT &plan,
                                    const fb::PhaseT &phase,
                                    const fb::InstructionT &instruction) {
  std::vector<moek::cuda::Use> uses;
  for (const Access &access : accessesOf(plan, phase, instruction))
    uses.push_back({uint64_t(access.device) * 2 + uint64_t(access.space),
                    access.begin, access.end, access.writes});
  return uses;
}
} // namespace

void addLaunches(fb::PlanT &plan, moec::KernelCompiler &compiler,
                 const std::vector<int> &archs, bool fused) {
  std::map<moek::cuda::KernelSpec, uint32_t> modules;
  std::vector<moec::KernelJob> jobs;
  auto launchOf = [&](const moek::cuda::Launch &one) {
    auto [entry, isNew] =
        modules.try_emplace(one.kernel, uint32_t(modules.size()));
    if (isNew) {
      auto module = std::make_unique<fb::ModuleT>();
      module->entry = one.kernel.entry;
      module->file = one.kernel.file;
      module->defines = wordsOf(one.kernel);
      plan.modules.push_back(std::move(module));
      for (int arch : archs)
        jobs.push_back({one.kernel, arch});
    }
    return fb::Launch(entry->second, one.grid[0], one.grid[1], one.grid[2],
                      one.threads, one.sharedBytes);
  };
  struct Made {
    fb::InstructionT *instruction;
    std::vector<moek::cuda::Launch> launches;
  };
  for (auto &phase : plan.phases) {
    std::map<uint32_t, Group> groups;
    std::vector<Made> all;
    for (auto &instruction : phase->instructions) {
      fb::DeviceT &device =
          *plan.devices[plan.queues[instruction->queue]->device];
      if (device.kind != fb::DeviceKind::Cuda)
        continue;
      auto context =
          moek::cuda::contextOf(phase->max_tokens, plan.sequences, plan.context,
                                device.arch, device.multiprocessors);
      setParts(plan, *instruction, context);
      Operands operands(plan, *phase, *instruction);
      moek::OpCode op = moert::findOp(instruction->op)->op;
      std::vector<moek::cuda::Launch> own;
      moek::withArguments(op, operands, [&](const auto &args) {
        own = moek::cuda::launchesOf(op, &args, context);
        device.workspace_bytes =
            std::max(device.workspace_bytes,
                     uint64_t(moek::cuda::workspaceBytes(op, &args, context)));
      });
      Group &group = groups[instruction->queue];
      bool joins = fused && own.size() == 1 && group.last &&
                   group.last->signal < 0 && instruction->waits.empty();
      if (!joins)
        group.parts.clear();
      if (own.size() == 1)
        group.parts.push_back({own[0], usesOf(plan, *phase, *instruction)});
      if (!joins)
        group.waits = !instruction->waits.empty(), group.canAwait = false;
      if (joins) {
        auto one = moek::cuda::fuse(group.parts, context);
        // A single block waits for the host itself.
        bool loses = group.waits && group.canAwait;
        if (one && (moek::cuda::canAwait(*one) || !loses)) {
          group.canAwait = moek::cuda::canAwait(*one);
          std::erase_if(all, [&](const Made &made) {
            return made.instruction == group.last;
          });
          own = {*one};
        } else {
          group.parts = {group.parts.back()};
          group.waits = group.canAwait = false;
        }
      }
      group.last = instruction.get();
      all.push_back({instruction.get(), own});
    }
    for (const Made &made : all)
      for (const moek::cuda::Launch &one : made.launches)
        made.instruction->launches.push_back(launchOf(one));
  }
  auto images = compiler.compile(jobs);
  if (!images)
    throw std::logic_error(images.status().message());
  for (size_t i = 0; i < jobs.size(); ++i) {
    const moec::KernelImage &from = (*images)[i];
    auto image = std::make_unique<fb::ImageT>();
    image->arch = from.arch;
    image->cubin.assign(from.cubin.begin(), from.cubin.end());
    image->ptx = from.ptx;
    plan.modules[i / archs.size()]->images.push_back(std::move(image));
  }
  plan.nvrtc = std::to_string(compiler.nvrtc().versionMajor()) + "." +
               std::to_string(compiler.nvrtc().versionMinor());
}

} // namespace moetest
