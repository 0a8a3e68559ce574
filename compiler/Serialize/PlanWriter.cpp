#include "compiler/Serialize/PlanWriter.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "runtime/schema/PlanChecksum.h"
#include "runtime/schema/PlanFields.h"

#include <fmt/format.h>
#include <tuple>

using namespace mlir;
namespace fb = moert::fb;
using flatbuffers::Offset;
using flatbuffers::String;
using flatbuffers::Vector;
using moert::PlanField;
using moert::Status;
using moert::StatusCode;

namespace moec {

namespace {

/// A flatbuffer holds 2 GiB, of which its own tables take some.
constexpr uint64_t kMaxBytes = uint64_t(2000) << 20;

/// Returns why an op cannot be written yet; empty if it can.
std::string obstacleOf(Operation *op) {
  if (auto file = dyn_cast<plan::FileOp>(op);
      file && file.getHeaderHash().empty() &&
      file.getKind() != plan::FileKind::Loaded)
    return "weights must be written before the plan that reads them";
  if (auto weight = dyn_cast<plan::WeightEntryInterface>(op);
      weight && !weight.isInFile())
    return fmt::format(
        "weight \"{}\" must be packed before the plan is written",
        weight.getWeightName().str());
  if (auto kv = dyn_cast<plan::KvOp>(op); kv && !kv.getOffset())
    return fmt::format(
        "the cache of layer {} has no offset; run plan-allocate first",
        kv.getLayer());
  if (auto buffer = dyn_cast<plan::BufferOp>(op); buffer && !buffer.getOffset())
    return fmt::format("buffer \"{}\" has no offset; run plan-allocate first",
                       buffer.getName().str());
  if (!isa_and_nonnull<plan::PlanDialect>(op->getDialect()))
    return op->getName().getStringRef().str() + " has no place in a plan file";
  return {};
}

/// Returns the name of a field's attribute: KvOp has a type of its own.
StringRef attributeName(StringRef field) {
  return field == "type" ? "element" : field;
}

/// Returns an attribute as a number: that of an enum, of the tensor format or
/// instruction with a name, or 1 for a unit.
int64_t numberOf(Attribute attribute) {
  return llvm::TypeSwitch<Attribute, int64_t>(attribute)
      .Case([](IntegerAttr integer) { return integer.getInt(); })
      .Case([](UnitAttr) { return 1; })
      .Case([](StringAttr name) {
        if (auto format = plan::formatFromName(name))
          return int64_t(*format);
        return int64_t(moert::findOp(std::string_view(name.getValue()))->op);
      })
      .Case<plan::FileKindAttr, plan::DeviceKindAttr, plan::NodeUseAttr,
            plan::QueueKindAttr, plan::EncodingAttr, plan::KvElementAttr,
            plan::LayoutAttr>(
          [](auto value) { return int64_t(value.getValue()); });
}

class Writer {
public:
  explicit Writer(plan::ProgramOp program) : program(program) {}

  Status write() {
    std::string obstacle;
    program->walk([&](Operation *op) {
      obstacle = obstacleOf(op);
      return obstacle.empty() ? WalkResult::advance() : WalkResult::interrupt();
    });
    if (!obstacle.empty())
      return Status(StatusCode::Internal, obstacle);
    fill(result, program);
    result.schema_version = moert::kSchemaVersion;
    // Any number other than 0 reserves the field for setPlanChecksum().
    result.checksum = 1;
    addAll<plan::FileOp>(result.files);
    addAll<plan::WeightOp>(result.weights);
    addAll<plan::ConstantOp>(result.constants);
    addAll<plan::DeviceOp>(result.devices);
    addAll<plan::QueueOp>(result.queues);
    addAll<plan::ModuleOp>(result.modules);
    addAll<plan::KvOp>(result.kv);
    addAll<plan::ExplainOp>(result.explanation);
    for (auto op : program.getBody().getOps<plan::ImageOp>())
      add(result.modules[index.at(op.getModule())]->images, op);
    for (auto op : program.getBody().getOps<plan::ResidentOp>())
      result.residency.emplace_back(index.at(op.getWeight()),
                                    index.at(op.getDevice()),
                                    fb::ResidencyMode(op.getMode()));
    for (auto op : program.getBody().getOps<plan::NoteOp>())
      result.notes.push_back(op.getText().str());
    for (auto op : program.getBody().getOps<plan::TokenizerOp>())
      fill(*(result.tokenizer = std::make_unique<fb::TokenizerT>()), op);
    for (auto op : program.getBody().getOps<plan::PhaseOp>())
      write(op);
    result.kernels.resize(kernels.size());
    for (auto &[name, index] : kernels)
      result.kernels[index] = name.str();
    return Status::ok();
  }

  fb::PlanT result;

private:
  template <typename OpT, typename EntryT>
  void addAll(std::vector<std::unique_ptr<EntryT>> &table) {
    for (OpT op : program.getBody().getOps<OpT>())
      add(table, op);
  }

  /// Appends an entry to `table` with the fields of `op`, and records its index
  /// for the op's result.
  template <typename EntryT>
  EntryT &add(std::vector<std::unique_ptr<EntryT>> &table, Operation *op) {
    if (op->getNumResults() > 0 && !isa<plan::InstOp>(op))
      index[op->getResult(0)] = table.size();
    EntryT &entry = *table.emplace_back(std::make_unique<EntryT>());
    fill(entry, op);
    if constexpr (std::is_same_v<EntryT, fb::WeightT>)
      for (Value source : cast<plan::WeightOp>(op).getSources())
        entry.sources.push_back(index.at(source));
    return entry;
  }

  /// Sets the fields that are called like an attribute of `op`, or like the
  /// type of an operand ("device"), of which they are the index.
  template <typename TableT> void fill(TableT &table, Operation *op) {
    using T = typename TableT::TableType;
    builder.Clear();
    builder.Finish(create<T>([&](auto field) {
      if constexpr (std::is_same_v<typename decltype(field)::Type, uint32_t>)
        return indexOf(op, field.name);
      else
        return argumentOf(field, op->getAttr(attributeName(field.name)));
    }));
    flatbuffers::GetRoot<T>(builder.GetBufferPointer())->UnPackTo(&table);
  }

  /// Creates a table of what `argument` returns for each PlanField.
  template <typename T, typename Argument> Offset<T> create(Argument argument) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return T::Traits::Create(builder, argument(PlanField<T, I>())...);
    }
    (std::make_index_sequence<T::Traits::fields_number>());
  }

  uint32_t indexOf(Operation *op, StringRef name) const {
    for (Value operand : op->getOperands())
      if (operand.getType().getAbstractType().getName() ==
          ("plan." + name).str())
        return index.at(operand);
    return 0;
  }

  /// Returns the argument of Create for a field with the value `attribute`. It
  /// is the default if that is null, or if the field is a list of tables or
  /// indices.
  template <typename Field> auto argumentOf(Field, Attribute attribute) {
    using Type = typename Field::Type;
    using Element = typename moert::ElementOf<Type>::type;
    if constexpr (std::is_floating_point_v<Type>) {
      return attribute ? cast<FloatAttr>(attribute).getValueAsDouble()
                       : Field::absent();
    } else if constexpr (std::is_integral_v<Type> || std::is_enum_v<Type>) {
      return attribute ? Type(numberOf(attribute)) : Field::absent();
    } else if constexpr (std::is_same_v<Type, const fb::Work *>) {
      static_assert(sizeof(fb::Work) ==
                    fb::Work::Traits::fields_number * sizeof(double));
      auto numbers = cast_if_present<DenseF64ArrayAttr>(attribute);
      return numbers ? reinterpret_cast<Type>(numbers.asArrayRef().data())
                     : nullptr;
    } else {
      Offset<std::remove_const_t<std::remove_pointer_t<Type>>> written;
      if (!attribute)
        return written;
      if constexpr (std::is_same_v<Type, const String *>) {
        written = builder.CreateString(cast<StringAttr>(attribute).str());
      } else if constexpr (std::is_same_v<Element, Offset<String>>) {
        auto texts = cast<ArrayAttr>(attribute).getAsValueRange<StringAttr>();
        written = builder.CreateVectorOfStrings(
            std::vector<std::string>(texts.begin(), texts.end()));
      } else if constexpr (std::is_same_v<Element, uint8_t>) {
        auto bytes = cast<StringAttr>(attribute).getValue();
        written = builder.CreateVector(bytes.bytes_begin(), bytes.size());
      } else if constexpr (std::is_same_v<Element, Offset<fb::Rejected>>) {
        std::vector<Element> tables;
        for (Attribute each : cast<ArrayAttr>(attribute)) {
          // The parts of the attribute are in the order of the fields.
          SmallVector<Attribute> parts;
          each.walkImmediateSubElements(
              [&](Attribute part) { parts.push_back(part); },
              [](mlir::Type) {});
          tables.push_back(create<fb::Rejected>([&](auto field) {
            return argumentOf(field, parts[field.number]);
          }));
        }
        written = builder.CreateVector(tables);
      } else if constexpr (std::is_arithmetic_v<Element> &&
                           !std::is_same_v<Element, uint32_t>) {
        auto numbers =
            cast<mlir::detail::DenseArrayAttrImpl<Element>>(attribute);
        written =
            builder.CreateVector(numbers.asArrayRef().data(), numbers.size());
      }
      return written;
    }
  }

  void write(plan::PhaseOp op) {
    fb::PhaseT &phase = add(result.phases, op);
    for (auto buffer : op.getBody().getOps<plan::BufferOp>())
      add(phase.buffers, buffer);
    for (auto inst : op.getBody().getOps<plan::InstOp>())
      write(inst, phase);
    plan::BindOp bind = op.getBind();
    phase.input = index.at(bind.getInput());
    if (bind.getHidden())
      phase.hidden = int32_t(index.at(bind.getHidden()));
    phase.output = index.at(bind.getOutput());
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
    fb::InstructionT &inst = add(phase.instructions, op);
    for (StringRef name : op.getKernels().getAsValueRange<StringAttr>())
      inst.kernels.push_back(
          kernels.try_emplace(name, kernels.size()).first->second);
    for (size_t i = 0; i < op.getSpec()->operands.size(); ++i)
      inst.operands.push_back(operand(op.getArgument(i)));
    for (Value event : op.getWaits())
      inst.waits.push_back(index.at(event));
    llvm::sort(inst.waits);
    if (Value event = op.getEvent()) {
      index[event] = phase.events;
      inst.signal = int32_t(phase.events++);
    }
    for (const plan::InstOp::Launch &launch : op.getLaunches())
      inst.launches.emplace_back(index.at(launch.module), launch.grid[0],
                                 launch.grid[1], launch.grid[2], launch.threads,
                                 launch.sharedBytes);
  }

  plan::ProgramOp program;
  /// Indices of table entries and events; the keys are their values.
  llvm::DenseMap<Value, uint32_t> index;
  llvm::MapVector<StringRef, uint32_t> kernels;
  /// Holds one table at a time.
  flatbuffers::FlatBufferBuilder builder;
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
