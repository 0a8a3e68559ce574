#include "compiler/Serialize/PlanReader.h"

#include "dialects/plan/Plan.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/schema/PlanFields.h"

using namespace mlir;
namespace fb = moert::fb;
using flatbuffers::Offset;
using flatbuffers::String;
using flatbuffers::Vector;
using moert::Status;
using moert::StatusCode;

namespace moec {

namespace {

/// Attributes of plan.program that are absent if the plan has the default.
constexpr StringLiteral kOptional[] = {
    "trained_context", "mtp_layers", "pooling", "labels", "sequences", "nvrtc"};

/// The attributes of enums, for types alone.
struct EnumAttrs {
  static plan::FileKindAttr of(fb::FileKind);
  static plan::DeviceKindAttr of(fb::DeviceKind);
  static plan::NodeUseAttr of(fb::NodeUse);
  static plan::QueueKindAttr of(fb::QueueKind);
  static plan::ResidencyModeAttr of(fb::ResidencyMode);
};

/// Returns the entries of a list, which may be absent.
template <typename T> auto entriesOf(const Vector<T> *list) {
  using Iterator = decltype(list->begin());
  return list ? llvm::make_range(list->begin(), list->end())
              : llvm::make_range(Iterator(), Iterator());
}

/// Creates ops from tables: their attributes and operands are the fields that
/// are called like the attribute, or like the type of the operand ("device").
class Reader {
public:
  Reader(MLIRContext &context, const fb::Plan &plan,
         const fb::Tokenizer *tokenizer)
      : plan(plan), tokenizer(tokenizer), location(UnknownLoc::get(&context)),
        builder(&context) {}

  void readInto(ModuleOp module) {
    builder.setInsertionPointToEnd(module.getBody());
    auto program = create<plan::ProgramOp>(plan);
    builder.setInsertionPointToEnd(&program.getBody().emplaceBlock());
    createAll<plan::DeviceOp>(plan.devices());
    createAll<plan::QueueOp>(plan.queues());
    createAll<plan::ModuleOp>(plan.modules());
    createAll<plan::FileOp>(plan.files());
    createAll<plan::WeightOp>(plan.weights());
    createAll<plan::ResidentOp>(plan.residency());
    createAll<plan::ConstantOp>(plan.constants());
    createAll<plan::KvOp>(plan.kv());
    if (tokenizer)
      create<plan::TokenizerOp>(*tokenizer);
    for (const String *note : entriesOf(plan.notes()))
      builder.create<plan::NoteOp>(location, moert::text(note));
    createAll<plan::ExplainOp>(plan.explanation());
    for (const fb::Phase *phase : entriesOf(plan.phases()))
      read(*phase);
    // Images come last: they are long, and nobody reads them.
    for (auto [index, module] : llvm::enumerate(entriesOf(plan.modules())))
      createAll<plan::ImageOp>(module->images(), entries["module"][index]);
  }

private:
  template <typename AttrT, typename Number> Attribute enumOf(Number number) {
    return AttrT::get(builder.getContext(),
                      decltype(std::declval<AttrT>().getValue())(number));
  }

  template <typename OpT, typename Table>
  OpT create(const Table &table, ArrayRef<Value> first = {}) {
    SmallVector<Value> operands(first);
    moert::forEachField<Table>([&](auto field) {
      if constexpr (std::is_same_v<typename decltype(field)::Type, uint32_t>)
        if (auto list = entries.find(field.name); list != entries.end())
          operands.push_back(list->second[field.of(table)]);
    });
    if constexpr (std::is_same_v<Table, fb::Weight>)
      for (uint32_t source : entriesOf(table.sources()))
        operands.push_back(entries["weight"][source]);
    auto attributes = attributesOf<OpT>(table);
    if constexpr (OpT::template hasTrait<OpTrait::ZeroResults>()) {
      return builder.create<OpT>(location, TypeRange(), operands, attributes);
    } else {
      auto op = builder.create<OpT>(location, operands, attributes);
      entries[op->getName().stripDialect()].push_back(op);
      return op;
    }
  }

  template <typename OpT, typename Tables>
  void createAll(const Tables *tables, ArrayRef<Value> first = {}) {
    for (const auto *table : entriesOf(tables))
      create<OpT>(*table, first);
  }

  /// Returns the fields that are attributes of `OpT`.
  template <typename OpT, typename Table>
  SmallVector<NamedAttribute> attributesOf(const Table &table) {
    SmallVector<NamedAttribute> attributes;
    moert::forEachField<Table>([&](auto field) {
      StringRef name = field.name == "type" ? "element" : field.name;
      if (!llvm::is_contained(OpT::getAttributeNames(), name))
        return;
      if constexpr (std::is_same_v<OpT, plan::ProgramOp>)
        if (!field.stored(table) && llvm::is_contained(kOptional, name))
          return;
      Attribute attribute;
      if constexpr (std::is_same_v<typename decltype(field)::Type, uint8_t>)
        attribute = attributeOf(name, field.of(table));
      else
        attribute = attributeOf(field.of(table));
      if (attribute)
        attributes.emplace_back(builder.getStringAttr(name), attribute);
    });
    return attributes;
  }

  // What a field is as an attribute; null for false, for an empty list of
  // tables, and for lists that are none.

  Attribute attributeOf(bool value) {
    return value ? builder.getUnitAttr() : UnitAttr();
  }
  template <std::integral Number> Attribute attributeOf(Number number) {
    return builder.getIntegerAttr(builder.getIntegerType(8 * sizeof(Number)),
                                  int64_t(number));
  }
  FloatAttr attributeOf(double number) {
    return builder.getF64FloatAttr(number);
  }
  template <typename Enum>
  requires std::is_enum_v<Enum> Attribute attributeOf(Enum value) {
    return enumOf<decltype(EnumAttrs::of(value))>(value);
  }
  Attribute attributeOf(StringRef name, uint8_t number) {
    if (name == "format")
      return builder.getStringAttr(moek::formatInfo(moek::Format(number)).name);
    if (name == "layout")
      return enumOf<plan::LayoutAttr>(number);
    if (name == "encoding")
      return enumOf<plan::EncodingAttr>(number);
    if (name == "element")
      return enumOf<plan::KvElementAttr>(number);
    return {};
  }
  StringAttr attributeOf(const String *text) {
    return builder.getStringAttr(moert::text(text));
  }
  Attribute attributeOf(const Vector<uint8_t> *bytes) {
    return builder.getStringAttr(StringRef(
        reinterpret_cast<const char *>(bytes->data()), bytes->size()));
  }
  Attribute attributeOf(const Vector<Offset<String>> *texts) {
    SmallVector<Attribute> all;
    for (const String *text : entriesOf(texts))
      all.push_back(attributeOf(text));
    return builder.getArrayAttr(all);
  }
  template <typename Number>
  requires(std::is_arithmetic_v<Number> &&
           !std::is_same_v<Number, uint32_t>) Attribute
      attributeOf(const Vector<Number> *numbers) {
    ArrayRef<Number> all;
    if (numbers)
      all = {numbers->data(), numbers->size()};
    return mlir::detail::DenseArrayAttrImpl<Number>::get(builder.getContext(),
                                                         all);
  }
  Attribute attributeOf(const fb::Work *work) {
    return work ? builder.getDenseF64ArrayAttr(
                      ArrayRef(reinterpret_cast<const double *>(work),
                               fb::Work::Traits::fields_number))
                : DenseF64ArrayAttr();
  }
  Attribute attributeOf(const Vector<Offset<fb::Rejected>> *rejected) {
    SmallVector<Attribute> all;
    for (const fb::Rejected *each : entriesOf(rejected))
      all.push_back([&]<size_t... I>(std::index_sequence<I...>) {
        // The parts of the attribute are in the order of the fields.
        return plan::RejectedAttr::get(builder.getContext(),
                                       attributeOf(each->get_field<I>())...);
      }(std::make_index_sequence<fb::Rejected::Traits::fields_number>()));
    return all.empty() ? ArrayAttr() : builder.getArrayAttr(all);
  }
  Attribute attributeOf(const void *) { return {}; }

  void read(const fb::Phase &phase) {
    OpBuilder::InsertionGuard guard(builder);
    auto op = create<plan::PhaseOp>(phase);
    builder.setInsertionPointToEnd(&op.getBody().emplaceBlock());
    auto &buffers = entries["buffer"];
    buffers.clear();
    events.clear();
    createAll<plan::BufferOp>(phase.buffers());
    for (const fb::Instruction *inst : entriesOf(phase.instructions()))
      read(*inst);
    builder.create<plan::BindOp>(
        location, buffers[phase.input()],
        phase.hidden() < 0 ? Value() : buffers[size_t(phase.hidden())],
        buffers[phase.output()]);
  }

  Value value(const fb::Operand &operand) {
    if (operand.kind() == fb::OperandKind::None)
      return {};
    std::string kind =
        StringRef(fb::EnumNameOperandKind(operand.kind())).lower();
    return entries[kind][operand.index()];
  }

  void read(const fb::Instruction &inst) {
    SmallVector<Attribute> kernels;
    for (uint32_t kernel : entriesOf(inst.kernels()))
      kernels.push_back(attributeOf(plan.kernels()->Get(kernel)));
    SmallVector<Value> arguments, waits;
    SmallVector<bool> present;
    for (const fb::Operand *operand : entriesOf(inst.operands())) {
      Value argument = value(*operand);
      present.push_back(bool(argument));
      if (argument)
        arguments.push_back(argument);
    }
    for (uint32_t event : entriesOf(inst.waits()))
      waits.push_back(events[event]);
    auto eventType =
        inst.signal() < 0 ? Type() : plan::EventType::get(builder.getContext());
    auto op = builder.create<plan::InstOp>(
        location, eventType, StringRef(moert::findOp(inst.op())->name),
        entries["queue"][inst.queue()], builder.getArrayAttr(kernels),
        arguments,
        /*modules=*/ValueRange(), waits, present, /*ints=*/ArrayRef<int64_t>(),
        /*floats=*/ArrayRef<double>(), /*barrier=*/false,
        entries["explain"][inst.explain()], /*work=*/DenseF64ArrayAttr());
    for (NamedAttribute attribute : attributesOf<plan::InstOp>(inst))
      op->setAttr(attribute.getName(), attribute.getValue());
    SmallVector<plan::InstOp::Launch> launches;
    for (const fb::Launch *launch : entriesOf(inst.launches()))
      launches.push_back(
          {entries["module"][launch->module_()],
           {launch->grid_x(), launch->grid_y(), launch->grid_z()},
           launch->threads(),
           launch->shared_bytes()});
    op.setLaunches(launches);
    if (op.getEvent())
      events.push_back(op.getEvent());
  }

  const fb::Plan &plan;
  const fb::Tokenizer *tokenizer;
  Location location;
  OpBuilder builder;
  /// Values by the name of their type.
  llvm::StringMap<SmallVector<Value>> entries;
  SmallVector<Value> events;
};

} // namespace

moert::StatusOr<OwningOpRef<ModuleOp>>
readPlan(MLIRContext &context, const fb::Plan &plan,
         const fb::Tokenizer *tokenizer) {
  context.loadDialect<plan::PlanDialect>();
  // The first program of a ladder has the tokenizer.
  if (!tokenizer)
    tokenizer = plan.tokenizer();
  auto plans = llvm::to_vector(entriesOf(plan.rungs()));
  if (plans.empty())
    plans.push_back(&plan);
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  for (const fb::Plan *tables : plans) {
    // A plan runs without its explanation, but instructions refer to it in
    // text.
    if (moert::count(tables->explanation()) == 0 &&
        llvm::any_of(entriesOf(tables->phases()), [](const fb::Phase *phase) {
          return moert::count(phase->instructions()) > 0;
        }))
      return Status(StatusCode::InvalidFile,
                    "the plan has instructions but no explanation of them");
    Reader(context, *tables, std::exchange(tokenizer, nullptr))
        .readInto(*module);
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
