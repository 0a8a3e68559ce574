//===- Arguments.h - From operands to argument structs ----------*- C++ -*-===//
//
// Fills the argument struct of an instruction (Abi.h) from its operands and
// parameters, as its entry in kernels/Ops.def says. Compiler, runtime and tests
// share it. `Operands` knows one instruction's operands by their names and
// where they are:
//
//   int32_t integer(name); float real(name);
//   bool has(name)                   whether an optional operand is there
//   uint8_t *bytes(name)             address of a buffer; null: not known yet
//   int64_t cols(name), rowsPerToken(name), fixedRows(name)   of a buffer
//   Encoding encoding(name)          of a buffer
//   std::span<const float> constant(name)   with an address on the device
//   WeightView weight(name); KvView cache(name);
//   GemmFn gemm(name); Encoding gemmEncoding(name)   of a weight's gemm
//
// Nothing is checked here: instructions that have not been proven may be asked
// about.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_ARGUMENTS_H
#define MOE_KERNELS_ARGUMENTS_H

#include "kernels/Abi.h"
#include "kernels/Activation.h"
#include "kernels/Ring.h"

#include <string_view>

namespace moek {

template <class Operands> class Arguments {
public:
  explicit Arguments(Operands &operands) : o(operands) {}

  template <OpCode Op> ArgsOf<Op> get() const {
    ArgsOf<Op> args{};
    fill(args);
    deriveShapes(args);
    return args;
  }

private:
  using Name = std::string_view;

  /// Elements from one of a token's `rows` rows of floats or integers, which
  /// are packed, to the next.
  int64_t stride(Name name, int64_t rows = 1) const {
    return rows > 0 ? o.cols(name) * o.rowsPerToken(name) / rows : 0;
  }
  /// Returns the stride in bytes, for rows of any encoding.
  int64_t byteStride(Name name, int64_t rows = 1) const {
    return isA8(o.encoding(name))
               ? encodedRowBytes(o.encoding(name), o.cols(name))
               : 4 * stride(name, rows);
  }
  ExpertSlice slice() const {
    return {o.has("map") ? o.constant("map").data() : nullptr,
            o.integer("begin"), o.integer("count")};
  }

  // One function for each role of an operand.
  template <class T> void buffer(T *&member, Name name) const {
    member = o.has(name) ? reinterpret_cast<T *>(o.bytes(name)) : nullptr;
  }
  template <class T> void weight(const T *&member, Name name) const {
    member = o.has(name) ? reinterpret_cast<const T *>(o.weight(name).data)
                         : nullptr;
  }
  void weight(WeightView &member, Name name) const { member = o.weight(name); }
  void cache(KvView &member, Name name) const {
    if (o.has(name))
      member = o.cache(name);
  }
  void constant(const float *&member, Name name) const {
    member = o.has(name) ? o.constant(name).data() : nullptr;
  }
  template <class T> void integer(T &member, Name name) const {
    member = T(o.integer(name));
  }
  void real(float &member, Name name) const { member = o.real(name); }

  /// A placeholder for an operand or parameter that has no member in the
  /// struct.
  struct None {};
  void weight(None, Name) const {}
  void constant(None, Name) const {}
  void integer(None, Name) const {}

#define MOE_MEMBER(type, cpu, gpu, member) a.member
#define MOE_CPU_MEMBER(type, cpu, member) a.member
#define MOE_NO_MEMBER                                                          \
  None {}
#define MOE_FILL_Read buffer
#define MOE_FILL_Write buffer
#define MOE_FILL_ReadWrite buffer
#define MOE_FILL_Weight weight
#define MOE_FILL_KvRead cache
#define MOE_FILL_KvWrite cache
#define MOE_FILL_Constant constant

#define MOE_OP(op, name, number, kind) void fill(op##Args &a) const {
#define MOE_OPERAND(name, role, type, ...)                                     \
  MOE_FILL_##role(MOE_TYPE_##type, #name);
#define MOE_INT(name, type, ...) integer(MOE_TYPE_##type, #name);
#define MOE_FLOAT(name, type, ...) real(MOE_TYPE_##type, #name);
#define MOE_OP_END }
#include "kernels/Ops.def"

#define MOE_OP(op, name, number, kind)                                         \
  void deriveShapes([[maybe_unused]] op##Args &a) const {
#define MOE_SHAPE(type, ...) MOE_TYPE_##type = __VA_ARGS__;
#define MOE_OP_END }
#include "kernels/Ops.def"

#undef MOE_MEMBER
#undef MOE_CPU_MEMBER
#undef MOE_NO_MEMBER
#undef MOE_FILL_Read
#undef MOE_FILL_Write
#undef MOE_FILL_ReadWrite
#undef MOE_FILL_Weight
#undef MOE_FILL_KvRead
#undef MOE_FILL_KvWrite
#undef MOE_FILL_Constant

  Operands &o;
};

/// Calls `use(args)` with the argument struct of an instruction of `op`.
template <class Operands, class Use>
auto withArguments(OpCode op, Operands &operands, Use use) {
  Arguments<Operands> arguments(operands);
  switch (op) {
#define MOE_OP(op, name, number, kind)                                         \
  case OpCode::op:                                                             \
    return use(arguments.template get<OpCode::op>());
#include "kernels/Ops.def"
  }
  __builtin_unreachable();
}

} // namespace moek

#endif // MOE_KERNELS_ARGUMENTS_H
