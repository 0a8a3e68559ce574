//===- Plan.cpp - Tables and phases of the plan dialect -------------------===//

#include "dialects/plan/Plan.h"

#include "kernels/Activation.h"
#include "kernels/KvCache.h"
#include "kernels/Layout.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "runtime/base/CheckedMath.h"

using namespace mlir;
using namespace mlir::plan;
using moert::Checked;

#include "dialects/plan/PlanDialect.cpp.inc"
#include "dialects/plan/PlanEnums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/plan/PlanTypes.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/plan/PlanAttrs.cpp.inc"

static_assert(int(Encoding::F32) == int(moek::Encoding::F32) &&
              int(Encoding::I32) == int(moek::Encoding::I32) &&
              int(Encoding::A8) == int(moek::Encoding::A8) &&
              int(Encoding::A8K) == int(moek::Encoding::A8K));
static_assert(int(KvElement::F32) == int(moek::KvType::F32) &&
              int(KvElement::F16) == int(moek::KvType::F16) &&
              int(KvElement::BF16) == int(moek::KvType::BF16) &&
              int(KvElement::Q8_0) == int(moek::KvType::Q8_0));

static_assert(int(Layout::Gguf) == int(moek::Layout::Gguf) &&
              int(Layout::Rows16) == int(moek::Layout::Rows16));

void PlanDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/plan/PlanTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/plan/PlanAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/plan/PlanOps.cpp.inc"
      >();
}

std::optional<moek::Format> mlir::plan::formatFromName(StringRef name) {
  for (uint32_t number = 0; number < 256; ++number)
    if (auto format = moek::formatFromNumber(number))
      if (moek::formatInfo(*format).name == std::string_view(name))
        return format;
  return std::nullopt;
}

int64_t WeightShape::matrixBytes() const {
  return moek::storedRows(moek::Layout(layout), rows) * rowBytes();
}

//===----------------------------------------------------------------------===//
// Shapes: 64x1408x2048xQ4_K
//===----------------------------------------------------------------------===//

static ParseResult parseShape(OpAsmParser &parser, IntegerAttr &outer,
                              IntegerAttr &rows, IntegerAttr &cols,
                              StringAttr &format) {
  SmallVector<int64_t> sizes;
  SMLoc loc = parser.getCurrentLocation();
  StringRef name;
  if (parser.parseDimensionList(sizes, /*allowDynamic=*/false) ||
      parser.parseKeyword(&name))
    return failure();
  if (sizes.size() != 3)
    return parser.emitError(loc) << "expected outer x rows x cols, found "
                                 << sizes.size() << " sizes";
  Builder &builder = parser.getBuilder();
  outer = builder.getI64IntegerAttr(sizes[0]);
  rows = builder.getI64IntegerAttr(sizes[1]);
  cols = builder.getI64IntegerAttr(sizes[2]);
  format = builder.getStringAttr(name);
  return success();
}

static void printShape(OpAsmPrinter &printer, Operation *, IntegerAttr outer,
                       IntegerAttr rows, IntegerAttr cols, StringAttr format) {
  printer << outer.getInt() << 'x' << rows.getInt() << 'x' << cols.getInt()
          << 'x' << format.getValue();
}

//===----------------------------------------------------------------------===//
// Floats: [1.0, 0.31622776]
//
// MLIR prints a dense array of floats with too few digits to read them back.
//===----------------------------------------------------------------------===//

static ParseResult parseFloats(OpAsmParser &parser, DenseF32ArrayAttr &array) {
  SmallVector<float> values;
  auto parseOne = [&]() -> ParseResult {
    APFloat value(0.0f);
    if (parser.parseFloat(APFloat::IEEEsingle(), value))
      return failure();
    values.push_back(value.convertToFloat());
    return success();
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, parseOne))
    return failure();
  array = parser.getBuilder().getDenseF32ArrayAttr(values);
  return success();
}

static void printFloats(OpAsmPrinter &printer, Operation *,
                        DenseF32ArrayAttr array) {
  printer << '[';
  llvm::interleaveComma(array.asArrayRef(), printer, [&](float value) {
    printer.printFloat(APFloat(value));
  });
  printer << ']';
}

#define GET_OP_CLASSES
#include "dialects/plan/PlanOpInterfaces.cpp.inc"
#include "dialects/plan/PlanOps.cpp.inc"

static LogicalResult verifyHash(Operation *op, StringRef what, StringRef hash,
                                size_t digits) {
  if (hash.size() == digits &&
      hash.find_first_not_of("0123456789abcdef") == StringRef::npos)
    return success();
  return op->emitOpError() << "expected a " << what << " of " << digits
                           << " lower-case hex digits, found '" << hash << "'";
}

/// Returns the shape that an op's attributes describe. The op is any weight but
/// plan.pack.
template <typename OpT> static WeightShape ownShape(OpT op, Layout layout) {
  return {op.getOuter(), op.getRows(), op.getCols(),
          *formatFromName(op.getFormat()), layout};
}

/// Checks the format and sizes of a stored or computed weight.
static LogicalResult verifyShape(Operation *op, StringRef formatName,
                                 int64_t outer, int64_t rows, int64_t cols) {
  std::optional<moek::Format> format = formatFromName(formatName);
  if (!format)
    return op->emitOpError()
           << "expected a tensor format, found '" << formatName << "'";
  if (outer < 1 || rows < 1 || cols < 1)
    return op->emitOpError() << "expected positive sizes, found " << outer
                             << "x" << rows << "x" << cols;
  int64_t block = moek::formatInfo(*format).blockElements;
  if (cols % block != 0)
    return op->emitOpError() << "expected columns in blocks of " << block
                             << " for " << formatName << ", found " << cols;
  return success();
}

/// Checks that rows of `cols` elements can have this layout.
static LogicalResult verifyLayout(Operation *op, Layout layout,
                                  moek::Format format, int64_t cols) {
  if (moek::hasLayout(moek::Layout(layout), format, cols))
    return success();
  return op->emitOpError() << "expected a layout for rows of " << cols << " "
                           << moek::formatInfo(format).name
                           << " elements, found " << stringifyLayout(layout);
}

/// Checks that the rows of `weight` are laid out as in model files, and that
/// `layout` can pack them.
static LogicalResult verifyRows(Operation *op, Value weight, Layout layout) {
  auto entry = weight.getDefiningOp<WeightEntryInterface>();
  if (!entry)
    return op->emitOpError("expected a weight");
  WeightShape shape = entry.getWeightShape();
  if (shape.layout != Layout::Gguf)
    return op->emitOpError() << "expected rows in layout gguf, found "
                             << stringifyLayout(shape.layout);
  return verifyLayout(op, layout, shape.format, shape.cols);
}

//===----------------------------------------------------------------------===//
// Table entries
//===----------------------------------------------------------------------===//

void FileOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(),
          getKind() == FileKind::Model ? "gguf" : stringifyFileKind(getKind()));
}

LogicalResult FileOp::verify() {
  if (getBytes() < 0 || getHeaderBytes() < 0 || getHeaderBytes() > getBytes())
    return emitOpError() << "expected 0 <= header <= bytes, found header "
                         << getHeaderBytes() << " of " << getBytes()
                         << " bytes";
  // The packed file gets its header and hash only when it is written, a loaded
  // one has none.
  if (getKind() != FileKind::Model && getHeaderBytes() == 0 &&
      getHeaderHash().empty())
    return success();
  if (failed(verifyHash(*this, "hash", getHeaderHash(), 32)) ||
      (!getSampleHash().empty() &&
       failed(verifyHash(*this, "hash of samples", getSampleHash(), 32))))
    return failure();
  return success();
}

void WeightOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), getName());
}

int64_t WeightOp::getExtentBytes() {
  auto layout = moek::Layout(getLayout());
  int64_t rowBytes =
      moek::rowBytes(layout, *formatFromName(getFormat()), getCols());
  int64_t rows = moek::storedRows(layout, getRows());
  return (getOuter() - 1) * getOuterStride() + (rows - 1) * getRowStride() +
         rowBytes;
}

WeightShape WeightOp::getWeightShape() { return ownShape(*this, getLayout()); }

bool WeightOp::isInFile() { return true; }

/// Checks that a weight has sources if it is loaded, and as many rows as these.
static LogicalResult verifySources(WeightOp op, FileKind kind) {
  if ((kind == FileKind::Loaded) != !op.getSources().empty())
    return op.emitOpError() << "expected sources in a loaded file alone, found "
                            << op.getSources().size() << " in a "
                            << stringifyFileKind(kind) << " one";
  int64_t rows = 0;
  for (Value source : op.getSources()) {
    auto weight = source.getDefiningOp<WeightOp>();
    if (!weight || weight.getLayout() != Layout::Gguf ||
        weight.getCols() != op.getCols())
      return op.emitOpError() << "expected sources of " << op.getCols()
                              << " columns in layout gguf";
    rows += weight.getOuter() * weight.getRows();
  }
  if (kind == FileKind::Loaded && rows != op.getOuter() * op.getRows())
    return op.emitOpError()
           << "expected sources of " << op.getOuter() * op.getRows()
           << " rows together, found " << rows;
  return success();
}

LogicalResult WeightOp::verify() {
  if (failed(verifyShape(*this, getFormat(), getOuter(), getRows(), getCols())))
    return failure();
  moek::Format format = *formatFromName(getFormat());
  auto layout = moek::Layout(getLayout());
  if (layout != moek::Layout::Gguf &&
      failed(verifyLayout(*this, getLayout(), format, getCols())))
    return failure();
  int64_t rowBytes = moek::rowBytes(layout, format, getCols());
  if (getRowStride() < rowBytes)
    return emitOpError() << "expected a row stride of at least " << rowBytes
                         << " bytes, found " << getRowStride();
  if (layout != moek::Layout::Gguf && getRowStride() != rowBytes)
    return emitOpError() << "expected a row stride of " << rowBytes
                         << " bytes in layout " << stringifyLayout(getLayout())
                         << ", found " << getRowStride();
  Checked matrix = Checked(moek::storedRows(layout, getRows()) - 1) *
                       Checked(getRowStride()) +
                   Checked(rowBytes);
  if (getOuterStride() < 0 || !matrix.valid() ||
      (getOuter() > 1 && uint64_t(getOuterStride()) < matrix.value()))
    return emitOpError() << "expected an outer stride of at least "
                         << matrix.value() << " bytes, found "
                         << getOuterStride();
  Checked end = Checked(getOffset()) +
                Checked(getOuter() - 1) * Checked(getOuterStride()) + matrix;
  auto file = getFile().getDefiningOp<FileOp>();
  if (!file)
    return emitOpError("expected a 'plan.file'");
  if (getOffset() < 0 || !end.valid() ||
      end.value() > uint64_t(file.getBytes()))
    return emitOpError() << "expected bytes inside the file's "
                         << file.getBytes() << ", found offset " << getOffset()
                         << " and end " << end.value();
  if (!getChecksum().empty() &&
      failed(verifyHash(*this, "checksum", getChecksum(), 16)))
    return failure();
  return verifySources(*this, file.getKind());
}

void DerivedOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), getName());
}

WeightShape DerivedOp::getWeightShape() {
  return ownShape(*this, Layout::Gguf);
}

/// Returns the shape as a tensor type, or null for a format that has no
/// kernels.
static RankedTensorType tensorType(MLIRContext *context, WeightShape shape) {
  Type element = moe::getElementType(context, shape.format);
  if (!element)
    return {};
  SmallVector<int64_t, 3> dims{shape.outer, shape.rows, shape.cols};
  return RankedTensorType::get(ArrayRef(dims).drop_front(shape.outer == 1),
                               element);
}

LogicalResult DerivedOp::verify() {
  if (failed(verifyShape(*this, getFormat(), getOuter(), getRows(), getCols())))
    return failure();
  SmallVector<RankedTensorType> types{
      tensorType(getContext(), getWeightShape())};
  for (Value part : getParts()) {
    if (!isa_and_nonnull<WeightOp>(part.getDefiningOp()))
      return emitOpError("expected each part to be a 'plan.weight'");
    WeightShape shape = shapeOf(part);
    if (shape.layout != Layout::Gguf)
      return emitOpError() << "expected rows in layout gguf, found "
                           << stringifyLayout(shape.layout);
    types.push_back(tensorType(getContext(), shape));
  }
  if (llvm::is_contained(types, RankedTensorType()))
    return emitOpError("expected formats with kernels");
  return getSource().verifyParts(
      [&] {
        InFlightDiagnostic diagnostic = emitOpError();
        diagnostic << '"' << getName() << "\": ";
        return diagnostic;
      },
      ArrayRef(types).drop_front(), types.front());
}

void PackOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), getName());
}

WeightShape PackOp::getWeightShape() {
  WeightShape shape = shapeOf(getWeight());
  shape.layout = getLayout();
  return shape;
}

Value PackOp::getUnpacked() { return getWeight(); }

LogicalResult PackOp::verify() {
  if (getLayout() == Layout::Gguf)
    return emitOpError("expected a layout other than the model file's");
  return verifyRows(*this, getWeight(), getLayout());
}

LogicalResult PackingOp::verifyRegions() {
  int64_t end = 0;
  for (PackedOp entry : getBody().getOps<PackedOp>()) {
    if (entry.getOffset() < end)
      return entry.emitOpError() << "expected an offset of at least " << end
                                 << ", found " << entry.getOffset();
    end = entry.getOffset() + entry.getPackedShape().bytes();
  }
  return success();
}

WeightShape PackedOp::getPackedShape() {
  WeightShape shape = shapeOf(getWeight());
  shape.layout = getLayout();
  return shape;
}

LogicalResult PackedOp::verify() {
  if (failed(verifyRows(*this, getWeight(), getLayout())))
    return failure();
  auto packing = cast<PackingOp>((*this)->getParentOp());
  Checked end = Checked(getOffset()) + Checked(getPackedShape().bytes());
  if (getOffset() < 0 || !end.valid() ||
      end.value() > uint64_t(packing.getBytes()))
    return emitOpError() << "expected bytes inside the file's "
                         << packing.getBytes() << ", found offset "
                         << getOffset() << " and end " << end.value();
  return success();
}

void ConstantOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), getName());
}

LogicalResult ConstantOp::verify() {
  if (getValues().empty())
    return emitOpError("expected at least one value");
  return success();
}

void DeviceOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), getName());
}

LogicalResult DeviceOp::verify() {
  if (getCores() < 1)
    return emitOpError() << "expected at least one core, found " << getCores();
  for (int64_t bytes : {getMemoryBytes(), getArenaBytes(), getKvBytes(),
                        getWeightBytes(), getScratchBytes(), getWorkerBytes(),
                        getWorkspaceBytes(), int64_t(getMultiprocessors())})
    if (bytes < 0)
      return emitOpError() << "expected sizes of at least 0, found " << bytes;
  if (getSharesMemory() && getKind() != DeviceKind::Cuda)
    return emitOpError("expected a CUDA device to share the CPU's memory");
  return success();
}

void QueueOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), (getDevice().getDefiningOp<DeviceOp>().getName() + "." +
                        stringifyQueueKind(getKind()))
                           .str());
}

LogicalResult QueueOp::verify() {
  auto device = getDevice().getDefiningOp<DeviceOp>();
  if (getKind() == QueueKind::Copy && device.getKind() != DeviceKind::Cuda)
    return emitOpError() << "expected a queue of copies on a CUDA device, "
                            "found it on '"
                         << device.getName() << "'";
  return success();
}

void plan::ModuleOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), getEntry());
}

LogicalResult plan::ModuleOp::verify() {
  if (getEntry().empty() || getFile().empty())
    return emitOpError("expected the names of a function and its file");
  return success();
}

LogicalResult ImageOp::verify() {
  if (getCubin().empty() || getPtx().empty())
    return emitOpError("expected machine code and PTX");
  for (int32_t number : {getArch(), getRegisters(), getSpilledBytes(),
                         getStackBytes(), getSharedBytes()})
    if (number < 0)
      return emitOpError() << "expected numbers of at least 0, found "
                           << number;
  return success();
}

/// Checks the offset of a region in an arena or a cache.
static LogicalResult verifyOffset(Operation *op,
                                  std::optional<int64_t> offset) {
  constexpr auto kMultiple = int64_t(moert::kRegionAlignment);
  if (offset && (*offset < 0 || *offset % kMultiple != 0))
    return op->emitOpError() << "expected an offset in multiples of "
                             << kMultiple << ", found " << *offset;
  return success();
}

void KvOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(),
          (getRowPerSequence() ? "state" : "kv") + std::to_string(getLayer()));
}

/// Returns the number of rows that the cache has in memory.
static int64_t rowsOf(KvOp op) {
  return op.getRowPerSequence()
             ? op.getCapacity()
             : moek::kvRows(moek::KvType(op.getElement()), op.getCapacity());
}

int64_t KvOp::getBytes() {
  return rowsOf(*this) *
         moek::kvRowBytes(moek::KvType(getElement()), getWidth());
}

LogicalResult KvOp::verify() {
  if (getLayer() < 0 || getCapacity() < 1 || getWidth() < 1)
    return emitOpError() << "expected a layer and positive sizes, found layer "
                         << getLayer() << ", rows " << getCapacity()
                         << ", cols " << getWidth();
  auto type = moek::KvType(getElement());
  if (getWidth() > INT32_MAX || getCapacity() > INT32_MAX ||
      !(Checked(rowsOf(*this)) * Checked(moek::kvRowBytes(type, getWidth())))
           .valid())
    return emitOpError("expected a size that fits 64 bits");
  return verifyOffset(*this, getOffset());
}

void ExplainOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  std::string name = (getPhase() + ".").str();
  if (getLayer() >= 0)
    name += "blk." + std::to_string(getLayer()) + ".";
  setName(getResult(), name + getPart().str());
}

LogicalResult ExplainOp::verify() {
  if (getPart().empty() || getPhase().empty())
    return emitOpError("expected an op and a phase, found an empty name");
  if (getLayer() < -1)
    return emitOpError() << "expected a layer of at least 0, found "
                         << getLayer();
  return success();
}

LogicalResult TokenizerOp::verify() {
  size_t tokens = getTokens().size();
  for (auto [name, size] : {std::pair("types", getTypes().size()),
                            std::pair("scores", getScores().size())})
    if (size != 0 && size != tokens)
      return emitOpError() << "expected " << tokens << " " << name << ", found "
                           << size;
  return success();
}

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

LogicalResult PhaseOp::verify() {
  if (getMinTokens() < 1 || getMaxTokens() < getMinTokens())
    return emitOpError() << "expected 1 <= min tokens <= max tokens, found "
                         << getMinTokens() << " to " << getMaxTokens();
  Block &block = getBody().front();
  if (block.empty() || !isa<BindOp>(block.back()))
    return emitOpError("expected 'plan.bind' at the end");
  return success();
}

BindOp PhaseOp::getBind() { return cast<BindOp>(getBody().front().back()); }

SmallVector<Value, 2> BindOp::getInputs() {
  SmallVector<Value, 2> inputs{getInput()};
  if (Value hidden = getHidden())
    inputs.push_back(hidden);
  return inputs;
}

void BufferOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), getName());
}

int64_t BufferOp::getBytes(int64_t tokens) {
  return (getRowsPerToken() * tokens + getFixedRows()) *
         moek::encodedRowBytes(moek::Encoding(getEncoding()), getCols());
}

LogicalResult BufferOp::verify() {
  if (getCols() < 1 || getRowsPerToken() < 0 || getFixedRows() < 0 ||
      getRowsPerToken() + getFixedRows() < 1)
    return emitOpError() << "expected at least one row and column, found rows ["
                         << getRowsPerToken() << ", " << getFixedRows()
                         << "], cols " << getCols();
  if (moek::isA8(moek::Encoding(getEncoding())) &&
      getCols() % moek::kA8Block != 0)
    return emitOpError() << "expected columns in blocks of " << moek::kA8Block
                         << " for " << stringifyEncoding(getEncoding())
                         << ", found " << getCols();
  return verifyOffset(*this, getOffset());
}
