//===- MoeVerify.cpp - Checks shared by the ops' verifiers ----------------===//

#include "dialects/moe/MoeVerify.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

std::string moe::toText(ArrayRef<int64_t> dims) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto print = [&](int64_t dim) {
    ShapedType::isDynamic(dim) ? os << '?' : os << dim;
  };
  os << '[';
  llvm::interleaveComma(dims, os, print);
  os << ']';
  return text;
}

namespace {
/// Returns whether the product of `dims` and the bytes of a block is below
/// 2^62.
bool isCountable(ArrayRef<int64_t> dims, int64_t blockBytes) {
  int64_t bytes = blockBytes;
  for (int64_t dim : dims)
    if (llvm::MulOverflow(bytes, dim, bytes) || bytes > (int64_t(1) << 62))
      return false;
  return true;
}
} // namespace

OpChecks &OpChecks::require(bool holds, const Twine &message) {
  return passes(holds) ? *this : fail(message);
}

OpChecks &OpChecks::equal(const Twine &what, int64_t expected, StringRef why,
                          int64_t value) {
  if (passes(value == expected))
    return *this;
  if (ShapedType::isDynamic(value))
    return fail("expected ", what, " ", expected, " ", why, ", got ?");
  return fail("expected ", what, " ", expected, " ", why, ", got ", value);
}

OpChecks &OpChecks::range(StringRef what, int64_t low, int64_t high,
                          int64_t value) {
  if (passes(low <= value && value <= high))
    return *this;
  return fail("expected ", what, " from ", low, " to ", high, ", got ", value);
}

OpChecks &OpChecks::size(StringRef what, int64_t value, bool zeroToo) {
  return range(what, zeroToo ? 0 : 1, int64_t(1) << 24, value);
}

OpChecks &OpChecks::positive(StringRef what, double value, bool zeroToo) {
  if (passes(std::isfinite(value) && (value > 0 || (zeroToo && value == 0))))
    return *this;
  return fail("expected ", what, " finite and ",
              zeroToo ? "not negative" : "above zero", ", got ",
              std::to_string(value));
}

OpChecks &OpChecks::multiple(const Twine &what, int64_t factor, StringRef why,
                             int64_t value) {
  if (passes(factor > 0 && value % factor == 0))
    return *this;
  return fail("expected ", what, " a multiple of ", factor, " ", why, ", got ",
              value);
}

OpChecks &OpChecks::weight(StringRef what, Type type, int64_t rank) {
  auto tensor = cast<RankedTensorType>(type);
  ArrayRef<int64_t> dims = tensor.getShape();
  std::optional<moek::Format> format = getFormat(tensor.getElementType());
  if (!passes(format.has_value()))
    fail("expected ", what, " elements of a format with kernels, got ",
         tensor.getElementType());
  if (!passes(rank == 0 || tensor.getRank() == rank))
    fail("expected ", what, " of rank ", rank, ", got ", toText(dims));
  if (!passes(!dims.empty() &&
              llvm::all_of(dims, [](int64_t size) { return size > 0; })))
    fail("expected ", what, " dimensions known and above zero, got ",
         toText(dims));
  if (failed(outcome))
    return *this;
  moek::FormatInfo info = moek::formatInfo(*format);
  multiple(what + " columns", info.blockElements, "(the block of its format)",
           dims.back());
  if (passes(isCountable(dims, info.blockBytes)))
    return *this;
  return fail("expected ", what, " bytes below 2^62, got dimensions ",
              toText(dims));
}

OpChecks &OpChecks::tokens(ValueRange rows) {
  auto dims = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  };
  ArrayRef<int64_t> first = dims(rows.front());
  for (Value value : rows) {
    ArrayRef<int64_t> own = dims(value);
    if (!passes(own.size() < 2 || own[1] > 0))
      fail("expected columns known and above zero, got ", toText(own));
    if (!passes(own[0] == first[0]))
      fail("expected the same number of tokens everywhere, got ", toText(first),
           " and ", toText(own));
  }
  return *this;
}

OpChecks &OpChecks::shape(StringRef what, StringRef shape,
                          ArrayRef<int64_t> expected, Type type) {
  ArrayRef<int64_t> dims = cast<RankedTensorType>(type).getShape();
  if (passes(dims == expected))
    return *this;
  return fail("expected ", what, " ", shape, " = ", toText(expected), ", got ",
              toText(dims));
}
