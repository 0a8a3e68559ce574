#include "kernels/Arguments.h"
#include "kernels/KvCache.h"
#include "kernels/Registry.h"
#include "kernels/cuda/Fuse.h"
#include "llvm/ADT/MapVector.h"
#include "passes/moe/Support.h"
#include "passes/plan/PlanHazards.h"
#include "passes/plan/PlanPasses.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Text.h"

#include <map>

namespace mlir::plan {
#define GEN_PASS_DEF_PLANLAUNCHESPASS
#include "passes/plan/PlanPasses.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;
using moek::cuda::KernelSpec;
using moek::cuda::LaunchContext;

namespace {

/// The arguments of an instruction, with the interface that kernels/Arguments.h
/// expects. Nothing has an address yet.
class Operands {
public:
  explicit Operands(InstOp inst) : inst(inst), spec(*inst.getSpec()) {}

  int32_t integer(std::string_view name) const {
    for (auto [known, value] : llvm::zip_equal(spec.ints, inst.getInts()))
      if (known == name)
        return int32_t(value);
    llvm_unreachable("a parameter of the op's signature");
  }
  float real(std::string_view name) const {
    for (auto [known, value] : llvm::zip_equal(spec.floats, inst.getFloats()))
      if (known == name)
        return float(value);
    llvm_unreachable("a parameter of the op's signature");
  }
  bool has(std::string_view name) const { return bool(value(name)); }

  uint8_t *bytes(std::string_view) const { return nullptr; }
  int64_t cols(std::string_view name) const { return buffer(name).getCols(); }
  int64_t rowsPerToken(std::string_view name) const {
    return buffer(name).getRowsPerToken();
  }
  int64_t fixedRows(std::string_view name) const {
    return buffer(name).getFixedRows();
  }
  moek::Encoding encoding(std::string_view name) const {
    return moek::Encoding(buffer(name).getEncoding());
  }
  ArrayRef<float> constant(std::string_view name) const {
    return value(name).getDefiningOp<ConstantOp>().getValues();
  }
  moek::WeightView weight(std::string_view name) const {
    WeightShape shape = shapeOf(value(name));
    // A null pointer would mean that there is no such weight.
    static constexpr uintptr_t kSomewhere = 4096;
    return {reinterpret_cast<uint8_t *>(kSomewhere),
            shape.outer,
            shape.rows,
            shape.cols,
            shape.matrixBytes(),
            shape.rowBytes(),
            shape.format};
  }
  moek::KvView cache(std::string_view name) const {
    auto kv = value(name).getDefiningOp<KvOp>();
    auto type = moek::KvType(kv.getElement());
    return {nullptr, kv.getWidth(), kv.getCapacity(),
            moek::kvRowBytes(type, kv.getWidth()), type};
  }
  moek::GemmFn gemm(std::string_view) const { return moek::cuda::gemmOnGpu(); }
  moek::Encoding gemmEncoding(std::string_view) const {
    return moek::Encoding::F32;
  }

private:
  Value value(std::string_view name) const {
    for (auto [position, operand] : llvm::enumerate(spec.operands))
      if (operand.name == name)
        return inst.getArgument(position);
    llvm_unreachable("an operand of the op's signature");
  }
  BufferOp buffer(std::string_view name) const {
    return value(name).getDefiningOp<BufferOp>();
  }

  mutable InstOp inst;
  const moert::OpSpec &spec;
};

/// Returns the form of an instruction's gemms. Fails if they differ, which no
/// GPU kernel supports, or if one is for another kind of device.
FailureOr<moek::cuda::GemmForm> formOf(InstOp inst) {
  std::optional<moek::cuda::GemmForm> form;
  for (StringAttr name :
       llvm::drop_begin(inst.getKernels().getAsRange<StringAttr>())) {
    const moek::GemmInfo *gemm =
        moek::findGemm(std::string_view(name.getValue()));
    if (!gemm || gemm->isa != moek::Isa::Cuda)
      return failure();
    if (form &&
        (form->activation != gemm->activation || form->layout != gemm->layout))
      return failure();
    form = {gemm->activation, gemm->layout};
  }
  return form.value_or(moek::cuda::GemmForm());
}

/// Returns what a GPU of this architecture does not accept in such a launch, or
/// "". Static shared memory is known after compiling (KernelImages.cpp).
std::string refusalOf(const moek::cuda::Launch &launch, int arch) {
  for (int i = 0; i < 3; ++i)
    if (launch.grid[i] < 1 || launch.grid[i] > moek::cuda::kMaxGrid[i])
      return "a grid of " + std::to_string(launch.grid[0]) + " x " +
             std::to_string(launch.grid[1]) + " x " +
             std::to_string(launch.grid[2]) + " blocks";
  if (launch.threads < 1 || launch.threads > moek::cuda::kMaxThreads)
    return "blocks of " + std::to_string(launch.threads) + " threads";
  if (launch.sharedBytes > moek::cuda::maxSharedBytes(arch))
    return "blocks with " + std::to_string(launch.sharedBytes) +
           " bytes of shared memory";
  return "";
}

/// Sets how the instruction's weights are streamed, unless they are resident.
void setParts(InstOp inst, LaunchContext &context) {
  int64_t bytes = 0, experts = 0;
  for (Value weight : inst.getArguments())
    if (isa<WeightType>(weight.getType()))
      for (Operation *user : weight.getUsers())
        if (auto resident = dyn_cast<ResidentOp>(user);
            resident && resident.getDevice() == inst.getDevice() &&
            isStreamed(resident.getMode())) {
          WeightShape shape = shapeOf(weight);
          experts = shape.outer;
          bytes += shape.bytes();
          context.pinned = resident.getMode() == ResidencyMode::Pinned;
        }
  if (experts)
    context.parts = moek::cuda::streamedParts(bytes, experts);
}

/// Returns the bytes that an instruction reads and writes, in the form that
/// kernels/cuda/Fuse.h needs.
std::vector<moek::cuda::Use> usesOf(InstOp inst, int64_t maxTokens) {
  std::vector<moek::cuda::Use> uses;
  for (const Access &access : accessesOf(inst)) {
    auto memory = [](Value value) {
      return uint64_t(reinterpret_cast<uintptr_t>(value.getAsOpaquePointer()));
    };
    // Caches of different layers share no bytes.
    moek::cuda::Use use{memory(access.region), 0, 1, access.writes};
    if (auto buffer = access.region.getDefiningOp<BufferOp>();
        buffer && buffer.getOffset()) {
      use.memory = memory(buffer.getDevice());
      use.begin = uint64_t(*buffer.getOffset());
      use.end = use.begin + uint64_t(buffer.getBytes(maxTokens));
    }
    uses.push_back(use);
  }
  return uses;
}

/// Neighbouring instructions of a queue that become one launch.
struct Group {
  SmallVector<InstOp> insts;
  std::vector<moek::cuda::Fusible> parts;
  moek::cuda::Launch launch; ///< The fused launch.
};

struct PlanLaunches : plan::impl::PlanLaunchesPassBase<PlanLaunches> {
  using PlanLaunchesPassBase::PlanLaunchesPassBase;

  void runOnOperation() override {
    bool anyFailed = false;
    getOperation()->walk([&](ProgramOp program) {
      modules.clear();
      for (PhaseOp phase : program.getBody().getOps<PhaseOp>()) {
        groups.clear();
        for (InstOp inst : llvm::to_vector(phase.getBody().getOps<InstOp>()))
          anyFailed |= failed(launch(program, phase, inst));
        for (auto &[queue, group] : groups)
          close(program, group);
      }
    });
    if (anyFailed)
      signalPassFailure();
  }

private:
  LogicalResult launch(ProgramOp program, PhaseOp phase, InstOp inst) {
    auto device = inst.getDevice().getDefiningOp<DeviceOp>();
    if (device.getKind() != DeviceKind::Cuda)
      return success();
    LaunchContext context = moek::cuda::contextOf(
        phase.getMaxTokens(), program.getSequences().value_or(1),
        program.getContext(), device.getArch(), device.getMultiprocessors());
    FailureOr<moek::cuda::GemmForm> form = formOf(inst);
    if (failed(form))
      return refuse(inst, phase, "no GPU kernel");
    context.form = *form;
    setParts(inst, context);

    moek::OpCode op = inst.getSpec()->op;
    Operands operands(inst);
    std::vector<moek::cuda::Launch> wanted;
    int64_t workspace = 0;
    moek::withArguments(op, operands, [&](const auto &args) {
      wanted = moek::cuda::launchesOf(op, &args, context);
      workspace = moek::cuda::workspaceBytes(op, &args, context);
    });
    if (wanted.empty())
      return refuse(inst, phase, "no GPU kernel");
    for (const moek::cuda::Launch &one : wanted)
      if (std::string refusal = refusalOf(one, context.arch); !refusal.empty())
        return refuse(inst, phase,
                      "sm_" + std::to_string(context.arch) + " cannot launch " +
                          refusal);
    device.setWorkspaceBytes(std::max<int64_t>(
        device.getWorkspaceBytes(),
        moert::alignUp(uint64_t(workspace), moert::kRegionAlignment)));
    place(program, phase, inst, std::move(wanted), context);
    return success();
  }

  /// Returns whether `inst` is a copy that takes one block a long time while
  /// the next instruction of its queue is a product that may run at the same
  /// time.
  static bool runsBesideNext(InstOp inst) {
    constexpr int64_t kLong = 4096; // Limit in bytes per token.
    if (inst.getSpec()->kind != moert::OpKind::Copies ||
        inst.getArgument(0).getDefiningOp<BufferOp>().getBytes(1) <= kLong)
      return false;
    for (Operation *next = inst->getNextNode(); next;
         next = next->getNextNode())
      if (auto other = dyn_cast<InstOp>(next);
          other && other.getQueue() == inst.getQueue())
        return other.getKernels().size() > 1 && !other.getBarrier() &&
               other.getWaits().empty();
    return false;
  }

  /// Adds an instruction to the open launch of its queue, or begins a new one.
  void place(ProgramOp program, PhaseOp phase, InstOp inst,
             std::vector<moek::cuda::Launch> wanted,
             const LaunchContext &context) {
    auto open = groups.find(inst.getQueue());
    // An instruction with waits begins a new launch.
    bool joins =
        open != groups.end() && wanted.size() == 1 && inst.getWaits().empty();
    if (joins) {
      Group &group = open->second;
      group.parts.push_back({wanted[0], usesOf(inst, phase.getMaxTokens())});
      // A launch of one block waits for the host itself; for larger launches, a
      // graph node waits before them.
      auto awaits = [&](const moek::cuda::Launch &launch) {
        return !group.insts[0].getWaits().empty() &&
               moek::cuda::canAwait(launch);
      };
      if (auto all = moek::cuda::fuse(group.parts, context);
          all && refusalOf(*all, context.arch).empty() &&
          (awaits(*all) || !awaits(group.launch))) {
        // The instruction moves before those that depend on its launch. It has
        // not waited for any instruction of another queue since then.
        inst->moveAfter(group.insts.back());
        group.insts.push_back(inst);
        group.launch = std::move(*all);
        ++numFused;
        return;
      }
    }
    if (open != groups.end()) {
      close(program, open->second);
      groups.erase(open);
    }
    if (wanted.size() > 1)
      return setLaunches(program, inst, wanted);
    Group group{
        {inst}, {{wanted[0], usesOf(inst, phase.getMaxTokens())}}, wanted[0]};
    groups.insert({inst.getQueue(), std::move(group)});
  }

  void close(ProgramOp program, Group &group) {
    moveEventsToLast(group.insts);
    setLaunches(program, group.insts.back(), group.launch);
  }

  /// Redirects waits for any of `insts`, which are one launch, to the last of
  /// them: only the end of a launch can signal. Only the first one has waits,
  /// so none waits for its own launch.
  static void moveEventsToLast(MutableArrayRef<InstOp> insts) {
    InstOp &last = insts.back();
    for (InstOp &inst : insts.drop_back()) {
      if (!inst.getEvent())
        continue;
      if (!last.getEvent())
        last = rebuild(last, llvm::to_vector(last.getWaits()), true);
      for (Operation *user : llvm::to_vector(inst.getEvent().getUsers()))
        replaceWait(cast<InstOp>(user), inst.getEvent(), last.getEvent());
      inst = rebuild(inst, llvm::to_vector(inst.getWaits()), false);
    }
  }
  static void replaceWait(InstOp inst, Value from, Value to) {
    SmallVector<Value> waits;
    for (Value wait : inst.getWaits())
      if (Value now = wait == from ? to : wait; !llvm::is_contained(waits, now))
        waits.push_back(now);
    inst.getWaitsMutable().assign(waits);
  }

  void setLaunches(ProgramOp program, InstOp inst,
                   ArrayRef<moek::cuda::Launch> wanted) {
    SmallVector<InstOp::Launch> launches;
    for (const moek::cuda::Launch &one : wanted)
      launches.push_back({moduleOf(program, one.kernel),
                          {one.grid[0], one.grid[1], one.grid[2]},
                          one.threads,
                          one.sharedBytes});
    inst.setLaunches(launches);
    numLaunches += launches.size();
  }

  LogicalResult refuse(InstOp inst, PhaseOp phase, const Twine &why) {
    auto explain = inst.getExplain().getDefiningOp<ExplainOp>();
    std::string label = explain.getPart().str(), formats;
    if (explain.getLayer() >= 0)
      label = "blk." + std::to_string(explain.getLayer()) + "." + label;
    for (Value argument : inst.getArguments())
      if (isa<WeightType>(argument.getType()))
        formats += (formats.empty() ? " of " : " and ") +
                   std::string(moek::formatInfo(shapeOf(argument).format).name);
    return moe::userError(
        inst,
        Twine(label) + ": " + why + " for " + inst.getOp() + formats +
            " in steps of up to " +
            moert::counted(uint64_t(phase.getMaxTokens()), "token"),
        "place it on a CPU, or compile for smaller steps with --ubatch");
  }

  /// Returns the module of a kernel, which all instructions share.
  Value moduleOf(ProgramOp program, const KernelSpec &kernel) {
    Value &entry = modules[kernel];
    if (entry)
      return entry;
    Operation *last = lastModule;
    if (modules.size() == 1)
      for (Operation &op : program.getBody().front())
        if (isa<DeviceOp, QueueOp>(op))
          last = &op;
    OpBuilder builder(&getContext());
    builder.setInsertionPointAfter(last);
    std::vector<std::string> words = wordsOf(kernel);
    SmallVector<StringRef> defines(words.begin(), words.end());
    auto created = builder.create<plan::ModuleOp>(
        program.getLoc(), kernel.entry, kernel.file,
        builder.getStrArrayAttr(defines));
    ++numModules;
    lastModule = created;
    return entry = created;
  }

  /// The launch that is open on each queue.
  llvm::MapVector<Value, Group> groups;
  std::map<KernelSpec, Value> modules;
  Operation *lastModule = nullptr;
};

} // namespace
