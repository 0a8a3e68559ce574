//===- OpCode.h - The instruction set of a plan -----------------*- C++ -*-===//
//
// One entry per plan instruction, shared by compiler, plan format and runtime.
// The numbers are stored in plan files: append, never renumber. Operands and
// parameters of each are in runtime/schema/OpTable.h, argument structs in
// kernels/Abi.h. T is the number of tokens of a step.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_OPCODE_H
#define MOE_KERNELS_OPCODE_H

#include <cstdint>

namespace moek {

enum class OpCode : uint8_t {
  Embed = 0,        ///< Rows of the embedding table, dequantised.
  RopeTable = 1,    ///< cos and sin of the step's positions.
  RmsNorm = 2,      ///< x / rms(x) * w, per group of columns.
  Quantize = 3,     ///< F32 rows to the A8 activation encoding.
  Linear = 4,       ///< out (+)= act * w^T + bias.
  GateUp = 5,       ///< out = silu(act * gate^T) * (act * up^T).
  SiluMul = 6,      ///< out = silu(gate) * up, where GateUp does not fit.
  Add = 7,          ///< out = x + y.
  Rope = 8,         ///< Rotates part of each head in place.
  MlaLatent = 9,    ///< Norm of the latent, RoPE of the key, into the cache.
  AbsorbQuery = 10, ///< [W_UK^T q_nope | q_rope] per head.
  LatentAttention = 11, ///< Attention whose keys and values are the latent.
  HeadLinear = 12,      ///< Each head's columns times a matrix of its own.
  MlaAttention = 13,    ///< Attention on K and V decompressed from the latent.
  Router = 14,          ///< Scores, selection and mixing weights of experts.
  ExpertGroup = 15,     ///< Lists of (token, choice) slots per expert.
  ExpertsLinear = 16,   ///< Per slot: act * w[expert]^T.
  ExpertsGateUp = 17,   ///< Per slot: silu(gate) * up of its expert.
  ExpertsCombine = 18,  ///< out[t] += sum over choices of weight * y[slot].
  Copy = 19,            ///< Between devices.
  LatentCombine = 20,   ///< Adds up LatentAttention's spans of the cache.
};
inline constexpr unsigned kOpCodeCount = 21;

} // namespace moek

#endif // MOE_KERNELS_OPCODE_H
