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

/// A buffer operand. In a step of T tokens it has rowsPerToken * T + fixedRows
/// rows of `cols` elements.
struct BufferRef {
  std::string_view operand;
  moek::Encoding encoding = moek::Encoding::F32;
  int64_t cols = 1, rowsPerToken = 0, fixedRows = 0;

  /// Returns the number of elements per token. Rows of F32 and I32 are
  /// contiguous, so only this product matters for them.
  int64_t perToken() const { return cols * rowsPerToken; }
};

class OpProof {
public:
  /// Begins the proof of instruction number `index` of `phase`. The plan must
  /// have passed verifyPhases().
  OpProof(const fb::Plan &plan, const fb::Phase &phase, uint32_t index,
          const WeightFiles &files);

  BufferRef buffer(std::string_view operand) const;
  const fb::Weight &weight(std::string_view operand) const {
    return op_.weight(operand);
  }
  /// Returns a weight and checks that it is one matrix: outer() == 1.
  const fb::Weight &matrix(std::string_view operand);
  /// Checks that a Vector operand is one row of `length` finite values. An
  /// optional operand may be absent.
  void vector(std::string_view operand, int64_t length) {
    vectors(operand, 1, length);
  }
  /// Checks that a Vector operand is `count` vectors of `length` finite values,
  /// one after the other in one row. An optional operand may be absent.
  void vectors(std::string_view operand, int64_t count, int64_t length);
  const fb::Kv &cache(std::string_view operand) const {
    return op_.cache(operand);
  }
  /// Checks that the rows of a cache have `width` elements; errors call this
  /// width `what`. The cache must have a row for each position. If tokens see
  /// only the last `window` > 0 positions, it may instead be a ring per
  /// sequence that holds the windows of all tokens of a step.
  void cacheRows(std::string_view operand, std::string_view what, int64_t width,
                 int64_t window = 0);
  /// Checks that an operand is a recurrent state of at least `floats` F32
  /// values per sequence.
  void state(std::string_view operand, int64_t floats);
  std::span<const float> constant(std::string_view operand) const {
    return op_.constant(operand);
  }

  /// Returns whether an optional operand is present.
  bool has(std::string_view operand) const { return op_.has(operand); }

  /// Checks that the gemm of the weight operand `operand` multiplies `act` with
  /// it: format, layout, encoding and the phase's token range.
  void gemm(std::string_view operand, const BufferRef &act);
  /// Checks the gemm of a weight operand whose activations the op kernel
  /// encodes itself. Returns the encoding that the gemm reads.
  moek::Encoding gemm(std::string_view operand);

  /// Returns the value of a parameter. It is in the parameter's range even
  /// after a failed check.
  int32_t integer(std::string_view name) const;
  bool boolean(std::string_view name) const { return integer(name) != 0; }
  /// Returns the value of a parameter and checks that it is from `low` to
  /// `high`, bounds that depend on other parameters.
  int32_t integer(std::string_view name, int64_t low, int64_t high);

  /// Checks that each token has `rows` rows of `cols` elements.
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
  // These check each operand and each parameter by itself.
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

/// Checks the relations between operands that the kernels of one op rely on.
/// Each op has one such function, in a Prove*.cpp.
using Prover = void (*)(OpProof &);

#define MOE_OP(op, name, number, kind) void prove##op(OpProof &);
#include "kernels/Ops.def"

} // namespace moert

#endif // MOE_RUNTIME_PROVE_OPPROOF_H
