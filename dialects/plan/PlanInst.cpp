//===- PlanInst.cpp - plan.inst: text form and verifier -------------------===//
//
// kernels/Ops.def is the single source of operand and parameter names.
//
//===----------------------------------------------------------------------===//

#include "dialects/plan/Plan.h"
#include "llvm/ADT/StringExtras.h"
#include "mlir/IR/Builders.h"
#include "runtime/schema/plan_generated.h"

using namespace mlir;
using namespace mlir::plan;
using moert::OperandRole;
using moert::OperandSpec;
using moert::OpSpec;

static StringRef ref(std::string_view text) {
  return {text.data(), text.size()};
}

/// Returns the type that values with the role `role` have.
static Type typeOf(MLIRContext *context, OperandRole role) {
  switch (role) {
  case OperandRole::Read:
  case OperandRole::Write:
  case OperandRole::ReadWrite:
    return BufferType::get(context);
  case OperandRole::Weight:
    return WeightType::get(context);
  case OperandRole::KvRead:
  case OperandRole::KvWrite:
    return KvType::get(context);
  case OperandRole::Constant:
    return ConstantType::get(context);
  }
  llvm_unreachable("every role has a type");
}

const OpSpec *InstOp::getSpec() {
  return moert::findOp(std::string_view(getOp()));
}

Value InstOp::getArgument(unsigned position) {
  ArrayRef<bool> present = getPresent();
  if (!present[position])
    return {};
  return getArguments()[llvm::count(present.take_front(position), true)];
}

Value InstOp::getDevice() {
  return getQueue().getDefiningOp<QueueOp>().getDevice();
}

/// The number of values that `launch_sizes` has for each launch.
constexpr size_t kLaunchSizes = 5;

SmallVector<InstOp::Launch> InstOp::getLaunches() {
  SmallVector<Launch> launches;
  ArrayRef<int64_t> sizes = getLaunchSizes();
  for (Value module : getModules()) {
    launches.push_back(
        {module, {sizes[0], sizes[1], sizes[2]}, sizes[3], sizes[4]});
    sizes = sizes.drop_front(kLaunchSizes);
  }
  return launches;
}

void InstOp::setLaunches(ArrayRef<Launch> launches) {
  SmallVector<Value> modules;
  SmallVector<int64_t> sizes;
  for (const Launch &launch : launches) {
    modules.push_back(launch.module);
    llvm::append_range(sizes, launch.grid);
    sizes.append({launch.threads, launch.sharedBytes});
  }
  getModulesMutable().assign(modules);
  setLaunchSizes(sizes);
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// Parses parameters such as `{groups = 1, eps = 1.0e-06}`: integers in
/// signature order, then floats.
static ParseResult parseParameters(OpAsmParser &parser, const OpSpec &spec,
                                   SmallVectorImpl<int64_t> &ints,
                                   SmallVectorImpl<double> &floats) {
  if (spec.ints.empty() && spec.floats.empty())
    return success();
  if (parser.parseLBrace())
    return failure();
  bool first = true;
  auto parseName = [&](std::string_view name) -> ParseResult {
    if (!first && parser.parseComma())
      return failure();
    first = false;
    if (parser.parseKeyword(ref(name)) || parser.parseEqual())
      return failure();
    return success();
  };
  for (std::string_view name : spec.ints) {
    int64_t &value = ints.emplace_back();
    if (parseName(name) || parser.parseInteger(value))
      return failure();
  }
  for (std::string_view name : spec.floats) {
    APFloat value(0.0);
    if (parseName(name) || parser.parseFloat(APFloat::IEEEdouble(), value))
      return failure();
    floats.push_back(value.convertToDouble());
  }
  return parser.parseRBrace();
}

static constexpr auto workNames = moert::fb::Work::Traits::field_names;

/// Parses amounts of work such as `work {token_ops = 2.0, again = 1.0}`. They
/// are in the order of workNames; an amount that is left out is 0.
static ParseResult parseWork(OpAsmParser &parser, DenseF64ArrayAttr &work) {
  if (failed(parser.parseOptionalKeyword("work")))
    return success();
  double values[std::size(workNames)] = {};
  auto next = workNames.begin();
  auto parseOne = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    StringRef name;
    APFloat value(0.0);
    if (parser.parseKeyword(&name))
      return failure();
    auto found = std::find(next, workNames.end(), name);
    if (found == workNames.end())
      return parser.emitError(loc) << "work has no '" << name << "' here";
    next = found + 1;
    if (parser.parseEqual() || parser.parseFloat(APFloat::IEEEdouble(), value))
      return failure();
    values[found - workNames.begin()] = value.convertToDouble();
    return success();
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Braces, parseOne))
    return failure();
  work = parser.getBuilder().getDenseF64ArrayAttr(values);
  return success();
}

/// Parses operands such as `(act = %x, w = %w, out = %y)`. They are in
/// signature order; absent ones are left out.
static ParseResult
parseArguments(OpAsmParser &parser, const OpSpec &spec,
               SmallVectorImpl<bool> &present,
               SmallVectorImpl<OpAsmParser::UnresolvedOperand> &values,
               SmallVectorImpl<Type> &types) {
  SMLoc loc = parser.getCurrentLocation();
  // Marks the operands before `name` as absent, or all remaining ones if `name`
  // does not follow.
  auto skipTo = [&](StringRef name) -> ParseResult {
    for (; present.size() < spec.operands.size(); present.push_back(false)) {
      const OperandSpec &next = spec.operands[present.size()];
      if (ref(next.name) == name)
        return success();
      if (!next.optional)
        return parser.emitError(loc) << "expected operand '" << ref(next.name)
                                     << "' of " << ref(spec.name);
    }
    if (!name.empty())
      return parser.emitError(loc)
             << ref(spec.name) << " has no operand '" << name << "' here";
    return success();
  };
  auto parseOne = [&]() -> ParseResult {
    StringRef name;
    loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name) || skipTo(name) || parser.parseEqual() ||
        parser.parseOperand(values.emplace_back()))
      return failure();
    types.push_back(
        typeOf(parser.getContext(), spec.operands[present.size()].role));
    present.push_back(true);
    return success();
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseOne))
    return failure();
  loc = parser.getCurrentLocation();
  return skipTo("");
}

/// Parses launches such as `%add grid [4, 1, 1] threads 256 shared 0, %copy
/// grid ...`.
static ParseResult
parseLaunches(OpAsmParser &parser,
              SmallVectorImpl<OpAsmParser::UnresolvedOperand> &modules,
              SmallVectorImpl<int64_t> &sizes) {
  auto parseSize = [&]() { return parser.parseInteger(sizes.emplace_back()); };
  auto parseOne = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    size_t before = sizes.size();
    if (parser.parseOperand(modules.emplace_back()) ||
        parser.parseKeyword("grid") ||
        parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square,
                                       parseSize) ||
        parser.parseKeyword("threads") || parseSize() ||
        parser.parseKeyword("shared") || parseSize())
      return failure();
    if (sizes.size() - before != kLaunchSizes)
      return parser.emitError(loc, "expected three sizes of a grid");
    return success();
  };
  return parser.parseCommaSeparatedList(parseOne);
}

ParseResult InstOp::parse(OpAsmParser &parser, OperationState &result) {
  MLIRContext *context = parser.getContext();
  Builder &builder = parser.getBuilder();
  OpAsmParser::UnresolvedOperand queue, explain;
  SmallVector<OpAsmParser::UnresolvedOperand> values, modules, waits;
  SmallVector<Type> types;
  SmallVector<bool> present;
  SmallVector<int64_t> ints, launchSizes;
  SmallVector<double> floats;
  ArrayAttr kernels;
  StringRef op;

  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&op))
    return failure();
  const OpSpec *spec = moert::findOp(std::string_view(op));
  if (!spec)
    return parser.emitError(loc) << "no instruction is called '" << op << "'";
  if (parser.parseKeyword("on") || parser.parseOperand(queue) ||
      parser.parseAttribute(kernels) ||
      parseArguments(parser, *spec, present, values, types) ||
      parseParameters(parser, *spec, ints, floats))
    return failure();
  auto &properties = result.getOrAddProperties<Properties>();
  if (succeeded(parser.parseOptionalKeyword("launches")) &&
      parseLaunches(parser, modules, launchSizes))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("after")) &&
      parser.parseOperandList(waits))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("barrier")))
    properties.barrier = builder.getUnitAttr();
  if (succeeded(parser.parseOptionalKeyword("signals")))
    result.addTypes(EventType::get(context));
  DenseF64ArrayAttr work;
  if (parser.parseKeyword("for") || parser.parseOperand(explain) ||
      parseWork(parser, work) ||
      parser.parseOptionalAttrDict(result.attributes))
    return failure();

  properties.op = builder.getStringAttr(op);
  properties.kernels = kernels;
  properties.present = builder.getDenseBoolArrayAttr(present);
  properties.ints = builder.getDenseI64ArrayAttr(ints);
  properties.floats = builder.getDenseF64ArrayAttr(floats);
  properties.work = work;
  properties.launch_sizes = builder.getDenseI64ArrayAttr(launchSizes);
  properties.operandSegmentSizes = {1, int32_t(values.size()),
                                    int32_t(modules.size()),
                                    int32_t(waits.size()), 1};
  if (parser.resolveOperand(queue, QueueType::get(context), result.operands) ||
      parser.resolveOperands(values, types, loc, result.operands) ||
      parser.resolveOperands(modules, ModuleType::get(context),
                             result.operands) ||
      parser.resolveOperands(waits, EventType::get(context), result.operands) ||
      parser.resolveOperand(explain, ExplainType::get(context),
                            result.operands))
    return failure();
  return success();
}

void InstOp::print(OpAsmPrinter &printer) {
  const OpSpec *spec = getSpec();
  printer << ' ' << getOp() << " on " << getQueue() << ' ' << getKernels()
          << " (";
  llvm::ListSeparator comma;
  for (auto [position, operand] : llvm::enumerate(spec->operands))
    if (Value value = getArgument(position))
      printer << StringRef(comma) << ref(operand.name) << " = " << value;
  printer << ')';
  if (!getInts().empty() || !getFloats().empty()) {
    llvm::ListSeparator separator;
    printer << " {";
    for (auto [name, value] : llvm::zip(spec->ints, getInts()))
      printer << StringRef(separator) << ref(name) << " = " << value;
    for (auto [name, value] : llvm::zip(spec->floats, getFloats())) {
      printer << StringRef(separator) << ref(name) << " = ";
      printer.printFloat(APFloat(value));
    }
    printer << '}';
  }
  if (!getModules().empty())
    printer << " launches ";
  llvm::interleaveComma(getLaunches(), printer, [&](const Launch &launch) {
    printer << launch.module << " grid [" << launch.grid[0] << ", "
            << launch.grid[1] << ", " << launch.grid[2] << "] threads "
            << launch.threads << " shared " << launch.sharedBytes;
  });
  if (!getWaits().empty())
    printer << " after " << getWaits();
  if (getBarrier())
    printer << " barrier";
  if (getEvent())
    printer << " signals";
  printer << " for " << getExplain();
  if (auto work = getWork()) {
    llvm::ListSeparator separator;
    printer << " work {";
    for (auto [name, value] : llvm::zip(workNames, *work))
      if (value != 0) {
        printer << StringRef(separator) << name << " = ";
        printer.printFloat(APFloat(value));
      }
    printer << '}';
  }
  printer.printOptionalAttrDict(
      llvm::to_vector((*this)->getDiscardableAttrs()));
}

//===----------------------------------------------------------------------===//
// Verifier
//===----------------------------------------------------------------------===//

/// Returns the device whose memory holds `value`. Returns null for weights and
/// constants, which every device has in its own memory.
static Value homeOf(Value value) {
  if (auto buffer = value.getDefiningOp<BufferOp>())
    return buffer.getDevice();
  if (auto kv = value.getDefiningOp<KvOp>())
    return kv.getDevice();
  return {};
}

LogicalResult InstOp::verify() {
  const OpSpec *spec = getSpec();
  if (!spec)
    return emitOpError() << "no instruction is called '" << getOp() << "'";
  if (auto work = getWork()) {
    if (work->size() != std::size(workNames))
      return emitOpError() << "expected " << std::size(workNames)
                           << " numbers of work, found " << work->size();
    for (auto [name, value] : llvm::zip(workNames, *work))
      if (!(value >= 0 && value <= (StringRef(name) == "again" ? 1 : 1e30)))
        return emitOpError() << "work has " << name << " = " << value;
  }
  auto expectCount = [&](StringRef what, size_t expected,
                         size_t found) -> LogicalResult {
    if (expected == found)
      return success();
    return emitOpError() << getOp() << ": expected " << expected << " " << what
                         << ", found " << found;
  };
  ArrayRef<bool> present = getPresent();
  if (failed(expectCount("operand flags", spec->operands.size(),
                         present.size())) ||
      failed(expectCount("operands", llvm::count(present, true),
                         getArguments().size())) ||
      failed(expectCount("integers", spec->ints.size(), getInts().size())) ||
      failed(expectCount("floats", spec->floats.size(), getFloats().size())))
    return failure();

  auto queue = getQueue().getDefiningOp<QueueOp>();
  if (queue.getKind() == QueueKind::Copy && spec->kind != moert::OpKind::Copies)
    return emitOpError() << getOp() << ": expected a copy in a queue of copies";
  size_t kernels = 1;
  for (auto [position, operand] : llvm::enumerate(spec->operands)) {
    Value value = getArgument(position);
    if (!value) {
      if (!operand.optional)
        return emitOpError() << getOp() << ": expected operand '"
                             << ref(operand.name) << "', found none";
      continue;
    }
    kernels += operand.gemm;
    Type expected = typeOf(getContext(), operand.role);
    if (value.getType() != expected)
      return emitOpError() << getOp() << ": expected " << expected << " for '"
                           << ref(operand.name) << "', found "
                           << value.getType();
    // Only a copy may read or write the memory of another device. A GPU runs
    // the copies in both directions.
    Value home = homeOf(value);
    if (home && home != getDevice() && spec->kind != moert::OpKind::Copies)
      return emitOpError() << getOp() << ": expected '" << ref(operand.name)
                           << "' in the memory of its device, found it on "
                              "another";
  }
  if (failed(expectCount("kernels", kernels, getKernels().size())) ||
      failed(expectCount("sizes of launches",
                         getModules().size() * kLaunchSizes,
                         getLaunchSizes().size())))
    return failure();
  auto device = getDevice().getDefiningOp<DeviceOp>();
  if (!getModules().empty() && device.getKind() != DeviceKind::Cuda)
    return emitOpError() << getOp() << ": expected launches on a CUDA device, "
                         << "found them on '" << device.getName() << "'";
  for (int64_t size : getLaunchSizes())
    if (size < 0 || size > INT32_MAX)
      return emitOpError() << getOp() << ": found a launch of size " << size;
  return success();
}
