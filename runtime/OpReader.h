//===- OpReader.h - Checked access to one instruction -----------*- C++ -*-===//
//
// What the binders read operands and parameters with. The first failed check is
// kept and later calls become harmless, so that a binder is written as a plain
// list of what its kernel assumes; finish() tells whether all of it held.
// Operands and parameters are named as in runtime/schema/OpTable.h.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_OPREADER_H
#define MOE_RUNTIME_OPREADER_H

#include "kernels/Activation.h"
#include "runtime/Bind.h"
#include "runtime/PlanAccess.h"
#include "runtime/schema/OpTable.h"

#include <span>
#include <string_view>

namespace moert {

/// A buffer operand: rows(T) = rowsPerToken * T + fixedRows rows of `cols`.
struct BufferRef {
  std::string_view operand;
  std::byte *data = nullptr;
  moek::Encoding encoding = moek::Encoding::F32;
  int64_t cols = 1, rowsPerToken = 0, fixedRows = 0;

  /// Elements of a token. F32 and I32 rows are packed, so that only this
  /// product matters for them.
  int64_t perToken() const { return cols * rowsPerToken; }
  float *f32() const { return reinterpret_cast<float *>(data); }
  int32_t *i32() const { return reinterpret_cast<int32_t *>(data); }
  uint8_t *bytes() const { return reinterpret_cast<uint8_t *>(data); }
};

/// A gemm, and the encoding of the activations that it reads.
struct OwnGemm {
  moek::GemmFn function = nullptr;
  moek::Encoding encoding = moek::Encoding::F32;
  std::string_view name = {};
};

class OpReader {
public:
  /// `own` is the worker's memory for buffers of which each has a copy.
  OpReader(const fb::Plan &plan, const fb::Phase &phase,
           const fb::Instruction &instruction,
           std::span<const DeviceMemory> memories, std::byte *own,
           const WeightFiles &files, ArgumentStore &arguments);

  /// A buffer of the given encoding; activations() takes F32, A8 and A8K,
  /// encodedBuffer() only the latter two.
  BufferRef buffer(std::string_view operand, moek::Encoding encoding);
  BufferRef activations(std::string_view operand);
  BufferRef encodedBuffer(std::string_view operand);
  BufferRef anyBuffer(std::string_view operand);
  moek::WeightView weight(std::string_view operand);
  /// A weight with outer == 1.
  moek::WeightView matrix(std::string_view operand);
  /// An F32 weight of `length` finite values in a row. Null if the operand is
  /// optional and absent.
  const float *vector(std::string_view operand, int64_t length);
  moek::KvView cache(std::string_view operand);
  std::span<const float> constant(std::string_view operand);

  /// Whether an optional operand is there.
  bool has(std::string_view operand) const;

  /// The kernel that multiplies `act` with the weight operand `operand`:
  /// checks format, layout, encoding and the phase's token range.
  moek::GemmFn gemm(std::string_view operand, const moek::WeightView &w,
                    const BufferRef &act);
  /// Likewise where the driver encodes the activations itself.
  OwnGemm gemm(std::string_view operand, const moek::WeightView &w);

  int32_t integer(std::string_view name, int64_t low, int64_t high);
  int32_t positive(std::string_view name);
  bool boolean(std::string_view name) { return integer(name, 0, 1) != 0; }
  float real(std::string_view name);

  /// Checks that each token has `rows` rows of `cols` elements, and returns
  /// the stride between rows: bytes for A8 and A8K, else elements.
  int64_t rows(const BufferRef &buffer, int64_t rows, int64_t cols);
  /// The same in bytes for every encoding.
  int64_t byteStride(const BufferRef &buffer, int64_t rows, int64_t cols);
  void fixedElements(const BufferRef &buffer, int64_t atLeast);
  void equal(std::string_view what, int64_t actual, std::string_view other,
             int64_t expected);
  void require(bool holds, std::string_view rule);
  /// That there is the memory per worker which the kernel uses. Last: its
  /// formula takes parameters that were found good.
  void checkScratch();

  const fb::Plan &plan() const { return plan_; }
  const void *keep(const auto &args) {
    return status_.isOk() ? arguments_.keep(args) : nullptr;
  }

  /// The driver; null after a failure.
  moek::KernelFn driver();
  Status finish() { return std::move(status_); }

private:
  template <class... Args>
  void fail(fmt::format_string<Args...> format, Args &&...args) {
    if (status_.isOk())
      status_ = invalidPlan(format, std::forward<Args>(args)...);
  }
  /// Whether a kernel of the instruction belongs to operand number `operand`.
  bool hasGemm(size_t operand) const;
  const fb::Operand *find(std::string_view operand) const;
  const OperandSpec &specOf(std::string_view operand) const;
  std::string_view kernelName(uint32_t position);
  bool usable(std::string_view kernel, moek::Isa isa);

  const fb::Plan &plan_;
  const fb::Phase &phase_;
  const fb::Instruction &instruction_;
  const OpSpec &spec_;
  std::span<const DeviceMemory> memories_; ///< By device.
  std::byte *own_;
  const WeightFiles &files_;
  ArgumentStore &arguments_;
  Status status_;
};

/// Builds the arguments of one op; null after a failed check. In a Bind*.cpp.
using Binder = const void *(*)(OpReader &);

#define MOE_OP(op, name, number, kind) const void *bind##op(OpReader &);
#include "kernels/Ops.def"

} // namespace moert

#endif // MOE_RUNTIME_OPREADER_H
