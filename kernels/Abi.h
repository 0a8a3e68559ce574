//===- Abi.h - What a kernel receives ---------------------------*- C++ -*-===//
//
// Kernels take pointers, strides and plain numbers. They do not allocate, do
// no I/O and start no threads: every worker of the pool calls the kernel with
// the same arguments and does its share (SPMD). Arguments are built once when
// a plan is loaded and are constant; what changes from step to step is Step.
//
// The argument struct of an instruction is its entry in kernels/Ops.def, which
// says what the kernel computes and has the shape of each member: RmsNormArgs
// has the members x, xStride, weight, out ... of MOE_OP(RmsNorm, ...).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_ABI_H
#define MOE_KERNELS_ABI_H

#include "kernels/OpCode.h"
#include "kernels/OperandTypes.def"
#include "kernels/Types.h"

namespace moek {

/// A further scoring function, sqrt(ln(1 + e^x)). It is not in Types.h, because
/// gemms are compiled with that file.
inline constexpr Scoring kSqrtSoftplus = Scoring(4);
/// The sparse mixer of Phi-3.5-MoE (arXiv 2409.12136): the weight of the j-th
/// best is its softmax over the experts that are neither better nor, by
/// kMixerShare of the larger of both sizes, far below it.
inline constexpr Scoring kSparseMixer = Scoring(5);
inline constexpr double kMixerShare = 0.02;
inline constexpr int32_t kScoringCount = 5;

/// The most residual streams of HyperWeights.
inline constexpr int32_t kMaxStreams = 8;
/// The most rows of a stack of ResidualMix.
inline constexpr int32_t kMaxResiduals = 63;
/// The most inputs before the token's own that ShortConv reads. It is the
/// number of rows in a block of ShortConv.cu: only the first block reads the
/// state.
inline constexpr int32_t kMaxConvRows = 32;
/// The most tokens of an n-gram of NgramEmbed.
inline constexpr int32_t kMaxNgram = 8;

/// The experts of a layer that this device has, if they are split between
/// devices. The device only groups and combines the choices of its own experts.
/// It leaves other slots unchanged, and nothing reads them; the devices'
/// results are added afterwards.
struct ExpertSlice {
  /// [experts] The index of each expert on this device, as a float, or -1 if
  /// another device has it. Null: the device has the `count` experts from
  /// `begin` on, or all if `count` is 0.
  const float *map = nullptr;
  int32_t begin = 0, count = 0;

  /// Returns the index of an expert on this device; negative if another device
  /// has it.
  int32_t numberOf(int32_t expert) const {
    if (map)
      return int32_t(map[expert]);
    int32_t number = expert - begin;
    return count == 0 || number < count ? number : -1;
  }
};

#define MOE_MEMBER(type, cpu, gpu, member) cpu member = {};
#define MOE_CPU_MEMBER(type, cpu, member) cpu member = {};
#define MOE_NO_MEMBER
#define MOE_OP(op, name, number, kind) struct op##Args {
#define MOE_OPERAND(name, role, type, ...) MOE_ACCESS_##role MOE_TYPE_##type
#define MOE_INT(name, type, ...) MOE_TYPE_##type
#define MOE_FLOAT(name, type, ...) MOE_TYPE_##type
#define MOE_SHAPE(type, ...) MOE_TYPE_##type
#define MOE_OP_END                                                             \
  }                                                                            \
  ;
#include "kernels/Ops.def"
#undef MOE_MEMBER
#undef MOE_CPU_MEMBER
#undef MOE_NO_MEMBER

/// The argument struct of an instruction.
template <OpCode Op> struct ArgsOfOp;
#define MOE_OP(op, name, number, kind)                                         \
  template <> struct ArgsOfOp<OpCode::op> { using type = op##Args; };
#include "kernels/Ops.def"
template <OpCode Op> using ArgsOf = typename ArgsOfOp<Op>::type;

} // namespace moek

#endif // MOE_KERNELS_ABI_H
