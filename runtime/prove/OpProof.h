//===- OpProof.h - Checked access to one instruction ------------*- C++ -*-===//
//
// Provers read operands and parameters with an OpProof, which has checked each
// of them alone against its type and range in kernels/Ops.def. So proveOp() of
// an op only checks the relations between them that a kernel relies on. The
// first failed check is kept and later calls become harmless, so that a prover
// is a plain list; finish() returns whether everything holds. Operands and
// parameters are named as in runtime/schema/OpTable.h.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_PROVE_OPPROOF_H
#define MOE_RUNTIME_PROVE_OPPROOF_H

#include "kernels/Activation.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/WeightFiles.h"
#include "runtime/prove/ProvenOp.h"

#include <span>
#include <string_view>

namespace moert {

/// A buffer operand: rows(T) = rowsPerToken * T + fixedRows rows of `cols`.
struct BufferRef {
  std::string_view operand;
  moek::Encoding encoding = moek::Encoding::F32;
  int64_t cols = 1, rowsPerToken = 0, fixedRows = 0;

  /// Elements of a token. F32 and I32 rows are packed, so that only this
  /// product matters for them.
  int64_t perToken() const { return cols * rowsPerToken; }
};

class OpProof {
public:
  /// For instruction `index` of a phase of a plan that passed verifyPhases().
  OpProof(const fb::Plan &plan, const fb::Phase &phase, uint32_t index,
          const WeightFiles &files);

  BufferRef buffer(std::string_view operand) const;
  const fb::Weight &weight(std::string_view operand) const {
    return op_.weight(operand);
  }
  /// A weight with outer() == 1.
  const fb::Weight &matrix(std::string_view operand);
  /// A Vector of `length` finite values in a row. An optional operand may be
  /// absent.
  void vector(std::string_view operand, int64_t length) {
    vectors(operand, 1, length);
  }
  /// Likewise `count` of them, one after the other.
  void vectors(std::string_view operand, int64_t count, int64_t length);
  const fb::Kv &cache(std::string_view operand) const {
    return op_.cache(operand);
  }
  /// A cache whose rows have `width` elements, which is `what`: a row for each
  /// position, or, if tokens see only `window` > 0 of them, possibly rings that
  /// hold what a step's tokens see.
  void cacheRows(std::string_view operand, std::string_view what, int64_t width,
                 int64_t window = 0);
  /// A state of at least `floats`.
  void state(std::string_view operand, int64_t floats);
  std::span<const float> constant(std::string_view operand) const {
    return op_.constant(operand);
  }

  /// Returns whether an optional operand is present.
  bool has(std::string_view operand) const { return op_.has(operand); }

  /// Checks that the gemm of the weight operand `operand` multiplies `act` with
  /// it: format, layout, encoding and the phase's token range.
  void gemm(std::string_view operand, const BufferRef &act);
  /// Likewise if the op kernel encodes the activations itself; returns the
  /// encoding that the gemm reads.
  moek::Encoding gemm(std::string_view operand);

  /// A value in the parameter's range, even after a failure.
  int32_t integer(std::string_view name) const;
  bool boolean(std::string_view name) const { return integer(name) != 0; }
  /// Checks a range that depends on other parameters.
  int32_t integer(std::string_view name, int64_t low, int64_t high);

  /// Checks that each token has `rows` rows of `cols` elements, and notes the
  /// stride between rows.
  void rows(const BufferRef &buffer, int64_t rows, int64_t cols);
  void fixedElements(const BufferRef &buffer, int64_t atLeast);
  void equal(std::string_view what, int64_t actual, std::string_view other,
             int64_t expected);
  void require(bool holds, std::string_view rule);

  const fb::Plan &plan() const { return plan_; }

  /// Returns the instruction if all checks held.
  StatusOr<ProvenOp> finish();

private:
  template <class... Args>
  void fail(fmt::format_string<Args...> format, Args &&...args) {
    if (status_.isOk())
      status_ = invalidPlan(format, std::forward<Args>(args)...);
  }
  /// Returns whether a kernel of the instruction belongs to operand number
  /// `operand`.
  bool hasGemm(size_t operand) const;
  std::string_view kernelName(uint32_t position) const;
  void checkOpKernel();
  // Each operand and each parameter alone.
  void checkBuffer(const OperandSpec &operand);
  void checkWeight(const OperandSpec &operand);
  void checkInteger(uint32_t position);
  void checkReal(uint32_t position);

  const fb::Plan &plan_;
  const fb::Phase &phase_;
  const WeightFiles &files_;
  ProvenOp op_;
  Status status_;
};

/// Proves the relations that kernels of one op rely on. Each is in a
/// Prove*.cpp.
using Prover = void (*)(OpProof &);

#define MOE_OP(op, name, number, kind) void prove##op(OpProof &);
#include "kernels/Ops.def"

} // namespace moert

#endif // MOE_RUNTIME_PROVE_OPPROOF_H
