#include "compiler/Serialize/PlanWriter.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "runtime/schema/PlanChecksum.h"
#include "runtime/schema/plan_generated.h"

#include <fmt/format.h>

using namespace mlir;
namespace fb = moert::fb;
using moert::Status;
using moert::StatusCode;

namespace moec {

namespace {

/// A flatbuffer holds 2 GiB, of which its own tables take some.
constexpr uint64_t kMaxBytes = uint64_t(2000) << 20;

/// Maps the values of table entries to their indices.
using Indices = llvm::DenseMap<Value, uint32_t>;

std::vector<std::string> strings(ArrayAttr array) {
  std::vector<std::string> result;
  result.reserve(array.size());
  for (StringAttr text : array.getAsRange<StringAttr>())
    result.push_back(text.str());
  return result;
}

class Writer {
public:
  explicit Writer(plan::ProgramOp program) : program(program) {}

  Status write() {
    writeFacts();
    for (Operation &op : program.getBody().front())
      MOE_RETURN_IF_ERROR(writeEntry(op));
    result.kernels.resize(kernels.size());
    for (auto &[name, index] : kernels)
      result.kernels[index] = name.str();
    return Status::ok();
  }

  fb::PlanT result;

private:
  void writeFacts() {
    result.schema_version = moert::kSchemaVersion;
    result.compiler = program.getCompiler().str();
    result.target = program.getTarget().str();
    result.architecture = program.getArchitecture().str();
    result.model_name = program.getModelName().str();
    result.model_hash = program.getModelHash().str();
    result.hidden = program.getHidden();
    result.vocab = program.getVocab();
    result.layers = program.getLayers();
    result.context = program.getContext();
    result.experts = program.getExperts();
    result.experts_used = program.getExpertsUsed();
    result.options = program.getOptions().str();
    result.parameters = program.getParameters();
    result.checksum = 1; // Reserves the field; setPlanChecksum() fills it in.
    result.trained_context = program.getTrainedContext().value_or(0);
    result.mtp_layers = program.getMtpLayers().value_or(0);
    result.pooling = program.getPooling().value_or("").str();
    if (program.getLabels())
      result.labels = strings(*program.getLabels());
    result.sequences = program.getSequences().value_or(1);
    result.nvrtc = program.getNvrtc().value_or("").str();
  }

  Status writeEntry(Operation &op) {
    if (auto file = dyn_cast<plan::FileOp>(op))
      return write(file);
    if (auto weight = dyn_cast<plan::WeightOp>(op))
      write(weight);
    else if (auto constant = dyn_cast<plan::ConstantOp>(op))
      write(constant);
    else if (auto device = dyn_cast<plan::DeviceOp>(op))
      write(device);
    else if (auto queue = dyn_cast<plan::QueueOp>(op))
      write(queue);
    else if (auto module = dyn_cast<plan::ModuleOp>(op))
      write(module);
    else if (auto image = dyn_cast<plan::ImageOp>(op))
      write(image);
    else if (auto resident = dyn_cast<plan::ResidentOp>(op))
      result.residency.emplace_back(index.at(resident.getWeight()),
                                    index.at(resident.getDevice()),
                                    fb::ResidencyMode(resident.getMode()));
    else if (auto explain = dyn_cast<plan::ExplainOp>(op))
      write(explain);
    else if (auto tokenizer = dyn_cast<plan::TokenizerOp>(op))
      write(tokenizer);
    else if (auto note = dyn_cast<plan::NoteOp>(op))
      result.notes.push_back(note.getText().str());
    else if (auto kv = dyn_cast<plan::KvOp>(op))
      return write(kv);
    else if (auto phase = dyn_cast<plan::PhaseOp>(op))
      return write(phase);
    else if (auto entry = dyn_cast<plan::WeightEntryInterface>(op))
      return Status(StatusCode::Internal,
                    fmt::format("weight \"{}\" must be packed before the plan "
                                "is written",
                                entry.getWeightName().str()));
    else
      return Status(StatusCode::Internal,
                    fmt::format("{} has no place in a plan file",
                                op.getName().getStringRef().str()));
    return Status::ok();
  }

  /// Appends an entry to `table` and records its index for `value`.
  template <typename EntryT>
  EntryT &add(std::vector<std::unique_ptr<EntryT>> &table, Value value) {
    index[value] = table.size();
    return *table.emplace_back(std::make_unique<EntryT>());
  }

  Status write(plan::FileOp op) {
    if (op.getHeaderHash().empty() && op.getKind() != plan::FileKind::Loaded)
      return Status(StatusCode::Internal,
                    "weights must be written before the plan that reads them");
    fb::FileT &file = add(result.files, op);
    file.kind = fb::FileKind(op.getKind());
    file.path = op.getPath().str();
    file.bytes = op.getBytes();
    file.header_bytes = op.getHeaderBytes();
    file.header_hash = op.getHeaderHash().str();
    file.sample_hash = op.getSampleHash().str();
    return Status::ok();
  }

  void write(plan::WeightOp op) {
    fb::WeightT &weight = add(result.weights, op);
    weight.name = op.getName().str();
    weight.file = index.at(op.getFile());
    weight.offset = op.getOffset();
    weight.format = uint8_t(*plan::formatFromName(op.getFormat()));
    weight.layout = uint8_t(op.getLayout());
    weight.outer = op.getOuter();
    weight.rows = op.getRows();
    weight.cols = op.getCols();
    weight.outer_stride = op.getOuterStride();
    weight.row_stride = op.getRowStride();
    weight.checksum = op.getChecksum().str();
    for (Value source : op.getSources())
      weight.sources.push_back(index.at(source));
  }

  void write(plan::ConstantOp op) {
    fb::ConstantT &constant = add(result.constants, op);
    constant.name = op.getName().str();
    constant.values.assign(op.getValues().begin(), op.getValues().end());
  }

  void write(plan::DeviceOp op) {
    fb::DeviceT &device = add(result.devices, op);
    device.name = op.getName().str();
    device.kind = fb::DeviceKind(op.getKind());
    device.isa = op.getIsa().str();
    device.arch = op.getArch();
    device.arena_bytes = op.getArenaBytes();
    device.kv_bytes = op.getKvBytes();
    device.weight_bytes = op.getWeightBytes();
    device.scratch_bytes = op.getScratchBytes();
    device.worker_bytes = op.getWorkerBytes();
    device.memory_bytes = op.getMemoryBytes();
    device.cores = op.getCores();
    device.multiprocessors = op.getMultiprocessors();
    device.workspace_bytes = op.getWorkspaceBytes();
    device.nodes = op.getNodes();
    device.node_use = fb::NodeUse(op.getNodeUse());
    device.shares_memory = op.getSharesMemory();
  }

  void write(plan::QueueOp op) {
    fb::QueueT &queue = add(result.queues, op);
    queue.device = index.at(op.getDevice());
    queue.kind = fb::QueueKind(op.getKind());
  }

  void write(plan::ModuleOp op) {
    fb::ModuleT &module = add(result.modules, op);
    module.entry = op.getEntry().str();
    module.file = op.getFile().str();
    module.defines = strings(op.getDefines());
  }

  void write(plan::ImageOp op) {
    fb::ImageT &image =
        *result.modules[index.at(op.getModule())]->images.emplace_back(
            std::make_unique<fb::ImageT>());
    image.arch = op.getArch();
    image.cubin.assign(op.getCubin().bytes_begin(), op.getCubin().bytes_end());
    image.ptx = op.getPtx().str();
    image.registers = op.getRegisters();
    image.spilled_bytes = op.getSpilledBytes();
    image.stack_bytes = op.getStackBytes();
    image.shared_bytes = op.getSharedBytes();
  }

  void write(plan::ExplainOp op) {
    fb::ExplainT &explain = add(result.explanation, op);
    explain.part = op.getPart().str();
    explain.layer = int32_t(op.getLayer());
    explain.phase = op.getPhase().str();
    explain.device = op.getDevice().str();
    explain.kernel = op.getKernel().str();
    explain.flops = op.getFlops().convertToDouble();
    explain.weight_bytes = op.getWeightBytes().convertToDouble();
    explain.activation_bytes = op.getActivationBytes().convertToDouble();
    explain.kv_bytes = op.getKvBytes().convertToDouble();
    explain.intensity = op.getIntensity().convertToDouble();
    explain.seconds = op.getSeconds().convertToDouble();
    explain.reason = op.getReason().str();
    if (op.getRejected())
      for (auto rejected : op.getRejected()->getAsRange<plan::RejectedAttr>())
        explain.rejected.push_back(tableOf(rejected));
  }

  static std::unique_ptr<fb::RejectedT> tableOf(plan::RejectedAttr attribute) {
    auto rejected = std::make_unique<fb::RejectedT>();
    rejected->kind = attribute.getKind().str();
    rejected->name = attribute.getName().str();
    rejected->of = attribute.getOf().str();
    rejected->seconds = attribute.getSeconds().getValueAsDouble();
    rejected->chosen = attribute.getChosen().str();
    rejected->chosen_seconds = attribute.getChosenSeconds().getValueAsDouble();
    rejected->reason = attribute.getReason().str();
    return rejected;
  }

  void write(plan::TokenizerOp op) {
    auto tokenizer = std::make_unique<fb::TokenizerT>();
    tokenizer->model = op.getModel().str();
    tokenizer->pre = op.getPre().str();
    tokenizer->tokens = strings(op.getTokens());
    tokenizer->types.assign(op.getTypes().begin(), op.getTypes().end());
    tokenizer->scores.assign(op.getScores().begin(), op.getScores().end());
    tokenizer->merges = strings(op.getMerges());
    tokenizer->bos = op.getBos();
    tokenizer->eos = op.getEos();
    tokenizer->eot = op.getEot();
    tokenizer->unk = op.getUnk();
    tokenizer->pad = op.getPad();
    tokenizer->add_bos = op.getAddBos();
    tokenizer->add_eos = op.getAddEos();
    tokenizer->remove_extra_spaces = op.getRemoveExtraSpaces();
    tokenizer->chat_template = op.getChatTemplate().str();
    tokenizer->rank_template = op.getRankTemplate().str();
    result.tokenizer = std::move(tokenizer);
  }

  Status write(plan::KvOp op) {
    if (!op.getOffset())
      return Status(StatusCode::Internal,
                    fmt::format("the cache of layer {} has no offset; run "
                                "plan-allocate first",
                                op.getLayer()));
    fb::KvT &kv = add(result.kv, op);
    kv.device = index.at(op.getDevice());
    kv.layer = op.getLayer();
    kv.type = uint8_t(op.getElement());
    kv.width = op.getWidth();
    kv.capacity = op.getCapacity();
    kv.offset = *op.getOffset();
    kv.row_per_sequence = op.getRowPerSequence();
    return Status::ok();
  }

  Status write(plan::PhaseOp op) {
    fb::PhaseT &phase =
        *result.phases.emplace_back(std::make_unique<fb::PhaseT>());
    phase.name = op.getName().str();
    phase.min_tokens = op.getMinTokens();
    phase.max_tokens = op.getMaxTokens();
    phase.with_head = op.getWithHead();
    for (plan::BufferOp buffer : op.getBody().getOps<plan::BufferOp>())
      MOE_RETURN_IF_ERROR(write(buffer, phase));
    for (plan::InstOp inst : op.getBody().getOps<plan::InstOp>())
      write(inst, phase);
    plan::BindOp bind = op.getBind();
    phase.input = index.at(bind.getInput());
    phase.hidden = bind.getHidden() ? int32_t(index.at(bind.getHidden())) : -1;
    phase.output = index.at(bind.getOutput());
    return Status::ok();
  }

  Status write(plan::BufferOp op, fb::PhaseT &phase) {
    if (!op.getOffset())
      return Status(StatusCode::Internal,
                    fmt::format("buffer \"{}\" has no offset; run "
                                "plan-allocate first",
                                op.getName().str()));
    fb::BufferT &buffer = add(phase.buffers, op);
    buffer.name = op.getName().str();
    buffer.device = index.at(op.getDevice());
    buffer.encoding = uint8_t(op.getEncoding());
    buffer.cols = op.getCols();
    buffer.rows_per_token = op.getRowsPerToken();
    buffer.fixed_rows = op.getFixedRows();
    buffer.offset = *op.getOffset();
    buffer.per_worker = op.getPerWorker();
    return Status::ok();
  }

  fb::Operand operand(Value value) const {
    if (!value)
      return {fb::OperandKind::None, 0};
    fb::OperandKind kind =
        isa<plan::BufferType>(value.getType())   ? fb::OperandKind::Buffer
        : isa<plan::WeightType>(value.getType()) ? fb::OperandKind::Weight
        : isa<plan::KvType>(value.getType())     ? fb::OperandKind::Kv
                                                 : fb::OperandKind::Constant;
    return {kind, index.at(value)};
  }

  void write(plan::InstOp op, fb::PhaseT &phase) {
    fb::InstructionT &inst =
        *phase.instructions.emplace_back(std::make_unique<fb::InstructionT>());
    const moert::OpSpec &spec = *op.getSpec();
    inst.op = uint8_t(spec.op);
    inst.queue = index.at(op.getQueue());
    for (StringAttr name : op.getKernels().getAsRange<StringAttr>())
      inst.kernels.push_back(
          kernels.try_emplace(name.getValue(), kernels.size()).first->second);
    for (size_t position = 0; position < spec.operands.size(); ++position)
      inst.operands.push_back(operand(op.getArgument(position)));
    inst.ints.assign(op.getInts().begin(), op.getInts().end());
    inst.floats.assign(op.getFloats().begin(), op.getFloats().end());
    inst.barrier = op.getBarrier();
    if (auto work = op.getWork())
      inst.work = std::make_unique<fb::Work>((*work)[0], (*work)[1], (*work)[2],
                                             (*work)[3], (*work)[4]);
    for (Value event : op.getWaits())
      inst.waits.push_back(index.at(event));
    llvm::sort(inst.waits);
    if (Value event = op.getEvent()) {
      index[event] = phase.events;
      inst.signal = int32_t(phase.events++);
    }
    inst.explain = index.at(op.getExplain());
    for (const plan::InstOp::Launch &launch : op.getLaunches())
      inst.launches.emplace_back(index.at(launch.module), launch.grid[0],
                                 launch.grid[1], launch.grid[2], launch.threads,
                                 launch.sharedBytes);
  }

  plan::ProgramOp program;
  Indices index;
  llvm::MapVector<StringRef, uint32_t> kernels;
};

/// Returns an upper bound of the plan's bytes: its strings and arrays, and
/// ample space for the numbers of each op.
uint64_t estimateBytes(plan::ProgramOp program) {
  uint64_t bytes = 0;
  program->walk([&](Operation *op) {
    bytes += 256 + 8 * op->getNumOperands();
    op->getAttrDictionary().walk([&](Attribute attr) {
      if (auto text = dyn_cast<StringAttr>(attr))
        bytes += text.size() + 16;
      else if (auto dense = dyn_cast<DenseArrayAttr>(attr))
        bytes += dense.getRawData().size();
    });
  });
  return bytes;
}

/// Joins the rungs of a ladder. The ladder holds what they have in common.
std::unique_ptr<fb::PlanT>
ladderOf(std::vector<std::unique_ptr<fb::PlanT>> plans) {
  auto ladder = std::make_unique<fb::PlanT>();
  ladder->schema_version = plans.front()->schema_version;
  ladder->compiler = plans.front()->compiler;
  ladder->checksum = plans.front()->checksum;
  ladder->tokenizer = std::move(plans.front()->tokenizer);
  for (std::unique_ptr<fb::PlanT> &rung : plans) {
    rung->checksum = 0;
    rung->tokenizer.reset();
  }
  ladder->rungs = std::move(plans);
  return ladder;
}

} // namespace

moert::StatusOr<std::vector<uint8_t>>
serializePlan(ArrayRef<plan::ProgramOp> programs) {
  uint64_t estimate = 0;
  for (plan::ProgramOp program : programs)
    estimate += estimateBytes(program);
  if (estimate > kMaxBytes)
    return Status(StatusCode::Unsupported,
                  fmt::format("the plan needs about {} bytes, more than the {} "
                              "of a plan file",
                              estimate, kMaxBytes));
  std::vector<std::unique_ptr<fb::PlanT>> plans;
  for (plan::ProgramOp program : programs) {
    Writer writer(program);
    MOE_RETURN_IF_ERROR(writer.write());
    plans.push_back(std::make_unique<fb::PlanT>(std::move(writer.result)));
  }
  std::unique_ptr<fb::PlanT> root = programs.size() == 1
                                        ? std::move(plans.front())
                                        : ladderOf(std::move(plans));
  flatbuffers::FlatBufferBuilder builder;
  fb::FinishPlanBuffer(builder, fb::Plan::Pack(builder, root.get()));
  std::vector<uint8_t> bytes(builder.GetBufferPointer(),
                             builder.GetBufferPointer() + builder.GetSize());
  moert::setPlanChecksum(bytes);
  return bytes;
}

moert::StatusOr<moert::OutputFile> startPlan(std::span<const uint8_t> bytes,
                                             moert::OutputTarget target) {
  MOE_ASSIGN_OR_RETURN(
      moert::OutputFile file,
      moert::OutputFile::create(std::move(target),
                                moert::OutputFile::Content::Binary));
  MOE_RETURN_IF_ERROR(file.write(bytes.data(), bytes.size()));
  return file;
}

Status writePlan(ArrayRef<plan::ProgramOp> programs,
                 moert::OutputTarget target) {
  MOE_ASSIGN_OR_RETURN(std::vector<uint8_t> bytes, serializePlan(programs));
  MOE_ASSIGN_OR_RETURN(moert::OutputFile file,
                       startPlan(bytes, std::move(target)));
  return file.commit();
}

} // namespace moec
