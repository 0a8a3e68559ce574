//===- MoeVerify.h - Checks shared by the ops' verifiers --------*- C++ -*-===//
//
// Every message has one form: "expected <what> <expected> <why>, got <actual>".
//
//===----------------------------------------------------------------------===//

#ifndef MOE_DIALECTS_MOE_MOEVERIFY_H
#define MOE_DIALECTS_MOE_MOEVERIFY_H

#include "dialects/moe/Moe.h"

namespace mlir::moe {

/// Formats a shape as "[2048, 1024]", with ? for a dimension that is not known.
std::string toText(ArrayRef<int64_t> dims);

/// Collects the checks of one op; the first that fails is reported.
class OpChecks {
public:
  explicit OpChecks(Operation *op) : op(op) {}

  /// Checks that `value` is `expected`; `why` continues the message: "to match
  /// x columns".
  OpChecks &equal(const Twine &what, int64_t expected, StringRef why,
                  int64_t value);
  /// Checks that low <= value <= high.
  OpChecks &range(StringRef what, int64_t low, int64_t high, int64_t value);
  /// Checks a size from an attribute: it must be positive, or with `zeroToo`
  /// not negative, and so small that products of two sizes and a sum of
  /// products fit in 64 bits.
  OpChecks &size(StringRef what, int64_t value, bool zeroToo = false);
  /// Checks that `value` is finite and above zero, or at least zero with
  /// `zeroToo`.
  OpChecks &positive(StringRef what, double value, bool zeroToo = false);
  /// Checks that `value` is a multiple of `factor`.
  OpChecks &multiple(const Twine &what, int64_t factor, StringRef why,
                     int64_t value);
  /// Checks that `type` is a weight: it has a format with kernels, static
  /// positive dimensions, whole blocks, a number of bytes that fits in 64 bits,
  /// and rank `rank` unless that is 0.
  OpChecks &weight(StringRef what, Type type, int64_t rank = 0);
  /// Checks that all of `rows` have static columns and the same number of
  /// tokens.
  OpChecks &tokens(ValueRange rows);
  /// Checks that `type` has exactly these dimensions; `shape` names them in the
  /// message, as in "[heads, nope, latent]".
  OpChecks &shape(StringRef what, StringRef shape, ArrayRef<int64_t> expected,
                  Type type);
  /// Checks any other condition; `message` says what was expected and found.
  OpChecks &require(bool holds, const Twine &message);

  LogicalResult result() const { return outcome; }

private:
  /// Returns whether there is nothing to report, because the check `holds` or
  /// an earlier one has failed.
  bool passes(bool holds) const { return failed(outcome) || holds; }
  template <typename... Parts> OpChecks &fail(const Parts &...parts) {
    InFlightDiagnostic diagnostic = op->emitOpError();
    if (auto symbol = dyn_cast<SymbolOpInterface>(op))
      diagnostic << '@' << symbol.getName() << ": ";
    (diagnostic << ... << parts);
    outcome = diagnostic;
    return *this;
  }

  Operation *op;
  LogicalResult outcome = success();
};

/// Returns dimension `index` of a ranked tensor; 0 if it has no such dimension,
/// which another check reports.
inline int64_t dim(Value value, unsigned index) {
  ArrayRef<int64_t> dims = cast<RankedTensorType>(value.getType()).getShape();
  return index < dims.size() ? dims[index] : 0;
}
/// Returns the last dimension of a ranked tensor.
inline int64_t columns(Value value) {
  return dim(value, cast<RankedTensorType>(value.getType()).getRank() - 1);
}

} // namespace mlir::moe

#endif // MOE_DIALECTS_MOE_MOEVERIFY_H
