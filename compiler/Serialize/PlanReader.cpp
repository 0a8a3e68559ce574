#include "compiler/Serialize/PlanReader.h"

#include "dialects/plan/Plan.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "runtime/schema/plan_generated.h"

using namespace mlir;
namespace fb = moert::fb;
using moert::Status;
using moert::StatusCode;

namespace moec {

namespace {

StringRef ref(std::string_view text) { return {text.data(), text.size()}; }

class Reader {
public:
  Reader(MLIRContext &context, const fb::PlanT &plan)
      : plan(plan), location(UnknownLoc::get(&context)), builder(&context) {}

  void readInto(ModuleOp module) {
    builder.setInsertionPointToEnd(module.getBody());
    auto program = builder.create<plan::ProgramOp>(
        location, plan.compiler, plan.target, plan.architecture,
        plan.model_name, plan.model_hash, plan.hidden, plan.vocab, plan.layers,
        plan.context, plan.experts, plan.experts_used, plan.options,
        plan.parameters,
        plan.trained_context ? builder.getI32IntegerAttr(plan.trained_context)
                             : IntegerAttr(),
        plan.mtp_layers ? builder.getI32IntegerAttr(plan.mtp_layers)
                        : IntegerAttr(),
        plan.pooling.empty() ? StringAttr()
                             : builder.getStringAttr(plan.pooling),
        plan.labels.empty() ? ArrayAttr() : strings(plan.labels),
        plan.sequences > 1 ? builder.getI32IntegerAttr(plan.sequences)
                           : IntegerAttr(),
        plan.nvrtc.empty() ? StringAttr() : builder.getStringAttr(plan.nvrtc));
    builder.setInsertionPointToEnd(&program.getBody().emplaceBlock());
    for (const auto &device : plan.devices)
      devices.push_back(builder.create<plan::DeviceOp>(
          location, device->name, plan::DeviceKind(device->kind), device->isa,
          device->memory_bytes, device->arch, device->arena_bytes,
          device->kv_bytes, device->weight_bytes, device->scratch_bytes,
          device->worker_bytes, device->cores, device->multiprocessors,
          device->workspace_bytes, device->nodes,
          plan::NodeUse(device->node_use), device->shares_memory));
    for (const auto &queue : plan.queues)
      queues.push_back(builder.create<plan::QueueOp>(
          location, plan::QueueKind(queue->kind), devices[queue->device]));
    for (const auto &module : plan.modules)
      modules.push_back(builder.create<plan::ModuleOp>(
          location, module->entry, module->file, strings(module->defines)));
    for (const auto &file : plan.files)
      files.push_back(builder.create<plan::FileOp>(
          location, plan::FileKind(file->kind), file->path, file->bytes,
          file->header_bytes, file->header_hash, file->sample_hash));
    for (const auto &weight : plan.weights)
      weights.push_back(read(*weight));
    for (const fb::Residency &residency : plan.residency)
      builder.create<plan::ResidentOp>(location, weights[residency.weight()],
                                       devices[residency.device()],
                                       plan::ResidencyMode(residency.mode()));
    for (const auto &constant : plan.constants)
      constants.push_back(builder.create<plan::ConstantOp>(
          location, constant->name, constant->values));
    for (const auto &kv : plan.kv)
      caches.push_back(builder.create<plan::KvOp>(
          location, devices[kv->device], kv->layer, plan::KvElement(kv->type),
          kv->capacity, kv->width, builder.getI64IntegerAttr(kv->offset),
          kv->row_per_sequence));
    if (plan.tokenizer)
      read(*plan.tokenizer);
    for (const std::string &note : plan.notes)
      builder.create<plan::NoteOp>(location, note);
    for (const auto &explain : plan.explanation)
      explanation.push_back(read(*explain));
    for (const auto &phase : plan.phases)
      read(*phase);
    // Images come last: they are long, and nobody reads them.
    for (auto [index, module] : llvm::enumerate(plan.modules))
      for (const auto &image : module->images)
        read(modules[index], *image);
  }

private:
  ArrayAttr strings(const std::vector<std::string> &texts) {
    SmallVector<Attribute> attrs;
    attrs.reserve(texts.size());
    for (const std::string &text : texts)
      attrs.push_back(builder.getStringAttr(text));
    return builder.getArrayAttr(attrs);
  }

  void read(Value module, const fb::ImageT &image) {
    builder.create<plan::ImageOp>(
        location, module, image.arch, image.registers, image.spilled_bytes,
        image.stack_bytes, image.shared_bytes,
        StringRef(reinterpret_cast<const char *>(image.cubin.data()),
                  image.cubin.size()),
        image.ptx);
  }

  Value read(const fb::WeightT &weight) {
    std::string_view format =
        moek::formatInfo(*moek::formatFromNumber(weight.format)).name;
    SmallVector<Value> sources;
    for (uint32_t source : weight.sources)
      sources.push_back(weights[source]);
    return builder.create<plan::WeightOp>(
        location, weight.name, files[weight.file], sources, weight.offset,
        ref(format), weight.outer, weight.rows, weight.cols,
        weight.outer_stride, weight.row_stride, plan::Layout(weight.layout),
        weight.checksum);
  }

  void read(const fb::TokenizerT &t) {
    builder.create<plan::TokenizerOp>(
        location, t.model, t.pre, strings(t.tokens), t.types, t.scores,
        strings(t.merges), t.bos, t.eos, t.eot, t.unk, t.pad, t.add_bos,
        t.add_eos, t.remove_extra_spaces, t.chat_template, t.rank_template);
  }

  Value read(const fb::ExplainT &e) {
    SmallVector<Attribute> rejected;
    for (const auto &r : e.rejected) {
      auto text = [&](const std::string &s) {
        return builder.getStringAttr(s);
      };
      rejected.push_back(plan::RejectedAttr::get(
          builder.getContext(), text(r->kind), text(r->name), text(r->of),
          builder.getF64FloatAttr(r->seconds), text(r->chosen),
          builder.getF64FloatAttr(r->chosen_seconds), text(r->reason)));
    }
    return builder.create<plan::ExplainOp>(
        location, e.part, e.layer, e.phase, e.device, e.kernel, e.reason,
        APFloat(e.flops), APFloat(e.weight_bytes), APFloat(e.activation_bytes),
        APFloat(e.kv_bytes), APFloat(e.intensity), APFloat(e.seconds),
        rejected.empty() ? ArrayAttr() : builder.getArrayAttr(rejected));
  }

  void read(const fb::PhaseT &phase) {
    OpBuilder::InsertionGuard guard(builder);
    auto op =
        builder.create<plan::PhaseOp>(location, phase.name, phase.min_tokens,
                                      phase.max_tokens, phase.with_head);
    builder.setInsertionPointToEnd(&op.getBody().emplaceBlock());
    buffers.clear();
    events.clear();
    for (const auto &buffer : phase.buffers)
      buffers.push_back(builder.create<plan::BufferOp>(
          location, buffer->name, devices[buffer->device],
          plan::Encoding(buffer->encoding), buffer->cols,
          buffer->rows_per_token, buffer->fixed_rows,
          builder.getI64IntegerAttr(buffer->offset), buffer->per_worker));
    for (const auto &inst : phase.instructions)
      read(*inst);
    builder.create<plan::BindOp>(
        location, buffers[phase.input],
        phase.hidden < 0 ? Value() : buffers[size_t(phase.hidden)],
        buffers[phase.output]);
  }

  Value value(const fb::Operand &operand) {
    switch (operand.kind()) {
    case fb::OperandKind::None:
      return {};
    case fb::OperandKind::Buffer:
      return buffers[operand.index()];
    case fb::OperandKind::Weight:
      return weights[operand.index()];
    case fb::OperandKind::Kv:
      return caches[operand.index()];
    case fb::OperandKind::Constant:
      return constants[operand.index()];
    }
    return {};
  }

  void read(const fb::InstructionT &inst) {
    SmallVector<StringRef> kernels;
    for (uint32_t kernel : inst.kernels)
      kernels.push_back(plan.kernels[kernel]);
    SmallVector<Value> arguments;
    SmallVector<bool> present;
    for (const fb::Operand &operand : inst.operands) {
      Value argument = value(operand);
      present.push_back(bool(argument));
      if (argument)
        arguments.push_back(argument);
    }
    SmallVector<Value> waits;
    for (uint32_t event : inst.waits)
      waits.push_back(events[event]);
    auto eventType =
        inst.signal < 0 ? Type() : plan::EventType::get(builder.getContext());
    DenseF64ArrayAttr work;
    if (const fb::Work *w = inst.work.get())
      work = builder.getDenseF64ArrayAttr({w->token_ops(), w->seen_ops(),
                                           w->row_ops(), w->first_bytes(),
                                           w->again()});
    auto op = builder.create<plan::InstOp>(
        location, eventType, ref(moert::findOp(inst.op)->name),
        queues[inst.queue], builder.getStrArrayAttr(kernels), arguments,
        /*modules=*/ValueRange(), waits, present, inst.ints, inst.floats,
        inst.barrier, explanation[inst.explain], work);
    SmallVector<plan::InstOp::Launch> launches;
    for (const fb::Launch &launch : inst.launches)
      launches.push_back({modules[launch.module_()],
                          {launch.grid_x(), launch.grid_y(), launch.grid_z()},
                          launch.threads(),
                          launch.shared_bytes()});
    op.setLaunches(launches);
    if (op.getEvent())
      events.push_back(op.getEvent());
  }

  const fb::PlanT &plan;
  Location location;
  OpBuilder builder;
  SmallVector<Value> files, weights, constants, devices, queues, modules,
      caches, explanation, buffers, events;
};

} // namespace

moert::StatusOr<OwningOpRef<ModuleOp>>
readPlan(MLIRContext &context, const fb::Plan &plan,
         const fb::Tokenizer *tokenizer) {
  context.loadDialect<plan::PlanDialect>();
  std::unique_ptr<fb::PlanT> root(plan.UnPack());
  if (tokenizer)
    root->tokenizer.reset(tokenizer->UnPack());
  // The first program of a ladder has the tokenizer.
  if (!root->rungs.empty())
    root->rungs.front()->tokenizer = std::move(root->tokenizer);
  SmallVector<fb::PlanT *> plans;
  for (const auto &rung : root->rungs)
    plans.push_back(rung.get());
  if (plans.empty())
    plans.push_back(root.get());
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  for (fb::PlanT *tables : plans) {
    // A plan runs without its explanation, but instructions refer to it in
    // text.
    bool hasInstructions = llvm::any_of(tables->phases, [](const auto &phase) {
      return !phase->instructions.empty();
    });
    if (hasInstructions && tables->explanation.empty())
      return Status(StatusCode::InvalidFile,
                    "the plan has instructions but no explanation of them");
    Reader(context, *tables).readInto(*module);
  }
  std::string error;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (error.empty())
      error = diagnostic.str();
    return success();
  });
  if (failed(verify(*module)))
    return Status(StatusCode::InvalidFile, error);
  return module;
}

} // namespace moec
