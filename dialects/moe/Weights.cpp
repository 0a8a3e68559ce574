//===- Weights.cpp - Where weights come from, and their verifiers ---------===//

#include "dialects/moe/Weights.h"

#include "dialects/moe/MoeVerify.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::moe;

using EmitError = function_ref<InFlightDiagnostic()>;

Matrices::Matrices(RankedTensorType type)
    : format(*getFormat(type.getElementType())) {
  ArrayRef<int64_t> shape = type.getShape();
  cols = shape.back();
  if (shape.size() > 1)
    rows = shape[shape.size() - 2];
  for (int64_t size : shape.drop_back(std::min<size_t>(shape.size(), 2)))
    outer *= size;
}

StringAttr moe::weightSymbol(Value weight) {
  return weight.getDefiningOp<WeightRefOp>().getWeightAttr().getAttr();
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static LogicalResult expectParts(EmitError emitError, size_t expected,
                                 size_t found) {
  if (found == expected)
    return success();
  return emitError() << "expected " << expected
                     << (expected == 1 ? " part" : " parts") << ", got "
                     << found;
}

static LogicalResult expectRange(EmitError emitError, StringRef what,
                                 int64_t low, int64_t high, int64_t found) {
  if (low <= found && found <= high)
    return success();
  return emitError() << "expected " << what << " from " << low << " to " << high
                     << ", got " << found;
}

/// `formula` explains the dimensions: "[heads, nope, latent]".
static LogicalResult expectShape(EmitError emitError, const Twine &what,
                                 ArrayRef<int64_t> expected,
                                 ArrayRef<int64_t> found) {
  if (expected == found)
    return success();
  return emitError() << "expected " << what << " = " << toText(expected)
                     << ", got " << toText(found);
}

static LogicalResult expectMatrices(EmitError emitError, const Twine &what,
                                    ArrayRef<int64_t> expected,
                                    RankedTensorType found) {
  Matrices m(found);
  return expectShape(emitError, what, expected, {m.outer, m.rows, m.cols});
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

LogicalResult FileTensorAttr::verify(EmitError emitError, int64_t file,
                                     int64_t offset) {
  if (failed(expectRange(emitError, "file", 0, INT32_MAX, file)))
    return failure();
  return expectRange(emitError, "offset", 0, INT64_MAX, offset);
}

LogicalResult FileTensorAttr::verifyParts(EmitError emitError,
                                          ArrayRef<RankedTensorType> parts,
                                          RankedTensorType) const {
  return expectParts(emitError, 0, parts.size());
}

std::optional<StoredBytes>
FileTensorAttr::locate(RankedTensorType type,
                       const std::optional<StoredBytes> &) const {
  Matrices m(type);
  return StoredBytes{getFile(), getOffset(), m.matrixBytes(), m.rowBytes()};
}

/// Returns the index of the dimension of rows; a vector has only one dimension.
static int64_t rowDim(RankedTensorType type) {
  return std::max<int64_t>(type.getRank() - 2, 0);
}

LogicalResult WeightSliceAttr::verifyParts(EmitError emitError,
                                           ArrayRef<RankedTensorType> parts,
                                           RankedTensorType type) const {
  if (failed(expectParts(emitError, 1, parts.size())))
    return failure();
  RankedTensorType part = parts.front();
  int64_t dim = getDim();
  if (failed(
          expectRange(emitError, "rank of the part", 1, 3, part.getRank())) ||
      failed(expectRange(emitError, "dim", 0, rowDim(part), dim)) ||
      failed(expectRange(emitError, "rank", part.getRank(), part.getRank(),
                         type.getRank())))
    return failure();
  SmallVector<int64_t> shape(part.getShape());
  int64_t size = type.getDimSize(dim);
  if (failed(expectRange(emitError, "begin", 0, shape[dim] - size, getBegin())))
    return failure();
  shape[dim] = size;
  if (failed(expectShape(emitError, "the part's other dimensions", shape,
                         type.getShape())))
    return failure();
  if (part.getElementType() != type.getElementType())
    return emitError() << "expected elements of the part's type "
                       << part.getElementType() << ", got "
                       << type.getElementType();
  int64_t block = moek::formatInfo(Matrices(part).format).blockElements;
  if (part.getRank() == 1 && getBegin() % block != 0)
    return emitError() << "expected begin a multiple of " << block
                       << " (the block of its format), got " << getBegin();
  return success();
}

std::optional<StoredBytes>
WeightSliceAttr::locate(RankedTensorType type,
                        const std::optional<StoredBytes> &part) const {
  if (!part)
    return std::nullopt;
  StoredBytes bytes = *part;
  if (type.getRank() == 1) {
    Matrices vector(type);
    bytes.offset +=
        int64_t(moek::rowBytes(vector.format, uint64_t(getBegin())));
    bytes.outerStride = bytes.rowStride = vector.rowBytes();
  } else {
    bytes.offset += getBegin() * (getDim() == rowDim(type) ? part->rowStride
                                                           : part->outerStride);
  }
  return bytes;
}

bool WeightSliceAttr::keepsWholePart(RankedTensorType type) const {
  return getDim() == rowDim(type);
}

LogicalResult StackAttr::verifyParts(EmitError emitError,
                                     ArrayRef<RankedTensorType> parts,
                                     RankedTensorType type) const {
  int64_t rank = type.getRank();
  if (failed(expectRange(emitError, "rank", 2, 3, rank)))
    return failure();
  int64_t stacked = 0;
  for (RankedTensorType part : parts) {
    bool isMatrix = rank == 3 && part.getRank() == 2;
    SmallVector<int64_t> shape(type.getShape().drop_front(isMatrix));
    if (!isMatrix && part.getRank() == rank)
      shape[0] = part.getDimSize(0);
    if (failed(expectShape(emitError,
                           rank == 3 ? "parts of shape [rows, columns]"
                                     : "parts with the result's columns",
                           shape, part.getShape())))
      return failure();
    stacked += isMatrix ? 1 : part.getDimSize(0);
  }
  if (stacked == type.getDimSize(0))
    return success();
  return emitError() << "expected parts of " << type.getDimSize(0)
                     << (rank == 3 ? " matrices" : " rows") << " in all, got "
                     << stacked;
}

LogicalResult TransposeAttr::verifyParts(EmitError emitError,
                                         ArrayRef<RankedTensorType> parts,
                                         RankedTensorType type) const {
  if (failed(expectParts(emitError, 1, parts.size())))
    return failure();
  Matrices from(parts.front());
  return expectMatrices(emitError, "[matrices, columns, rows] of the part",
                        {from.outer, from.cols, from.rows}, type);
}

LogicalResult FoldQueryAttr::verify(EmitError emitError, int64_t heads,
                                    int64_t nope, int64_t rope, int64_t latent,
                                    bool) {
  // Products of two sizes stay in 64 bits.
  constexpr int64_t kMost = int64_t(1) << 24;
  for (auto [what, size] :
       {std::pair("heads", heads), std::pair("nope", nope),
        std::pair("rope", rope), std::pair("latent", latent)})
    if (failed(expectRange(emitError, what, 1, kMost, size)))
      return failure();
  return success();
}

LogicalResult FoldQueryAttr::verifyParts(EmitError emitError,
                                         ArrayRef<RankedTensorType> parts,
                                         RankedTensorType type) const {
  if (failed(expectParts(emitError, 2, parts.size())))
    return failure();
  int64_t heads = getHeads(), nope = getNope(), latent = getLatent();
  int64_t inputs = parts[0].getShape().back();
  if (failed(expectMatrices(
          emitError, "W_Q of shape [1, heads * (nope + rope), inputs]",
          {1, heads * (nope + getRope()), inputs}, parts[0])) ||
      failed(expectMatrices(emitError,
                            getKTransposed()
                                ? "W_UK of shape [heads, latent, nope]"
                                : "W_UK of shape [heads, nope, latent]",
                            {heads, getKTransposed() ? latent : nope,
                             getKTransposed() ? nope : latent},
                            parts[1])))
    return failure();
  return expectMatrices(emitError,
                        "a result of shape [1, heads * (latent + rope), "
                        "inputs]",
                        {1, heads * (latent + getRope()), inputs}, type);
}

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

LogicalResult WeightOp::verify() {
  return OpChecks(*this).weight("weight", getTensorType()).result();
}

/// Finds the weights that `weight` is made of. A missing one is null.
static SmallVector<WeightOp> partsOf(WeightOp weight,
                                     SymbolTableCollection &symbols) {
  return llvm::map_to_vector(
      weight.getPartSymbols(), [&](FlatSymbolRefAttr part) {
        return symbols.lookupNearestSymbolFrom<WeightOp>(weight, part);
      });
}

/// Returns whether `weight` depends on itself, directly or through other
/// weights.
static bool isMadeOfItself(WeightOp weight, SymbolTableCollection &symbols) {
  SmallVector<WeightOp> pending{weight};
  llvm::SmallPtrSet<Operation *, 8> seen;
  while (!pending.empty())
    for (WeightOp part : partsOf(pending.pop_back_val(), symbols)) {
      if (part == weight)
        return true;
      if (part && seen.insert(part).second)
        pending.push_back(part);
    }
  return false;
}

LogicalResult WeightOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto emitError = [&] {
    InFlightDiagnostic diagnostic = emitOpError();
    diagnostic << '@' << getSymName() << ": ";
    return diagnostic;
  };
  SmallVector<RankedTensorType> types;
  for (auto [symbol, part] :
       llvm::zip_equal(getPartSymbols(), partsOf(*this, symbols))) {
    if (!part)
      return emitError() << "expected part " << symbol
                         << " to be a moe.weight of the module, got none";
    types.push_back(part.getTensorType());
  }
  if (isMadeOfItself(*this, symbols))
    return emitError() << "expected parts that do not contain it, got a cycle";
  return getSource().verifyParts(emitError, types, getTensorType());
}

void WeightRefOp::build(OpBuilder &builder, OperationState &state,
                        WeightOp weight) {
  build(builder, state, weight.getTensorType(), weight.getSymName());
}

LogicalResult WeightRefOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto weight =
      symbols.lookupNearestSymbolFrom<WeightOp>(*this, getWeightAttr());
  if (!weight)
    return emitOpError() << "expected " << getWeightAttr()
                         << " to be a moe.weight of the module, got none";
  if (weight.getTensorType() == getType())
    return success();
  return emitOpError() << "expected " << getWeightAttr() << " of type "
                       << weight.getTensorType() << ", got " << getType();
}
