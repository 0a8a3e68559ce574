//===- Abi.h - What CUDA kernels receive ------------------------*- C++ -*-===//
//
// Included by the kernels, which NVRTC compiles, and by the host, which fills
// these structs: so types have the same size on both sides, and the only other
// files are kernels/Ops.def and kernels/OperandTypes.def. Pointers are device
// addresses.
//
// A kernel has one parameter. Where it takes what the CPU's kernel takes, that
// is the struct which kernels/Ops.def declares for both: its members are
// described there, and kernels/cuda/DeviceArgs.h fills it. This file has the
// structs of kernels that take something else.
//
// A captured graph keeps the parameter: what changes from step to step is Step,
// in device memory, which is written before the step. Grids are for the most
// rows that a phase may have; blocks for rows that a step does not have return
// at once.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_ABI_H
#define MOE_KERNELS_CUDA_ABI_H

#include "kernels/OperandTypes.def"

namespace moek::cuda {

using i64 = long long;
using u64 = unsigned long long;
using u32 = unsigned int;
using u16 = unsigned short;
using u8 = unsigned char;
using i8 = signed char;
using i16 = short;

constexpr int kMaxSequences = 64;

/// moek::SequenceRows.
struct Sequence {
  int begin, count, position, state;
  const int *pages;
};

/// Number of counters of blocks that have ended; see Fuse.h.
constexpr int kTickets = 512;

/// moek::Step, and tickets, which are 0 before and after each launch.
struct Step {
  int tokens, sequences;
  Sequence sequence[kMaxSequences];
  u32 tickets[kTickets];
};

/// moek::WeightView; strides in bytes.
struct Matrix {
  const u8 *data;
  i64 rows, cols, outerStride, rowStride;
};

/// moek::KvView.
struct Kv {
  u8 *data;
  i64 width, rowStride;
};

/// moek::ExpertSlice.
struct ExpertSlice {
  const float *map;
  int begin, count;
};

#define MOE_MEMBER(type, cpu, gpu, member) gpu member;
#define MOE_CPU_MEMBER(type, cpu, member)
#define MOE_NO_MEMBER
#define MOE_OP(op, name, number, kind)                                         \
  struct op##Args {                                                            \
    const Step *step;
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

/// For ActivationMul, GateMul and Add: `perToken` elements of each token. In
/// ActivationMul, y may be null. In GateMul, `share` elements of x share an
/// element of y.
struct PairArgs {
  const Step *step;
  const float *x, *y;
  float *out;
  i64 perToken, share;
};

/// For Linear, GateUp, HeadLinear, ExpertsLinear and ExpertsGateUp: rows of
/// `act` times `w` (and `up`), each row with the matrix of its head or expert.
struct GemmArgs {
  const Step *step;
  const u8 *act;
  i64 actStride; ///< Bytes.
  Matrix w;
  Matrix up;
  const float *bias, *upBias; ///< [matrices, rows] or null.
  float *out;
  i64 outStride;
  const int *offsets, *slots; ///< Of ExpertGroup; null without experts.
  int experts, topK;
  int actPerToken; ///< The row of act for slot s is s / topK instead of s.
  int accumulate;
  int tail; ///< HeadLinear: columns of a head that are copied.
};

/// Narrow.cu: `rowsPerToken` rows of `cols` floats of each token as 16-bit
/// numbers, for HalfGemm.cu.
struct NarrowArgs {
  const Step *step;
  const u8 *x;
  i64 tokenStride, rowStride; ///< Bytes between tokens, and rows of a token.
  u16 *out;      ///< [rows, pitch], and `plane` elements later the low parts.
  float *scales; ///< [rows]; only with F16.
  i64 pitch, plane; ///< pitch: cols, rounded up to 32, with zeros.
  int rowsPerToken, cols;
  /// Of ExpertGroup, where rows are slots: only the first `*slotCount` of
  /// `slots` are narrowed. Nobody wrote the rows of experts on other devices.
  /// Null: all.
  const int *slots, *slotCount;
};

/// A product whose activations were narrowed, with the members of NarrowArgs.
struct HalfGemmArgs : GemmArgs {
  const u16 *narrowed;
  const float *scales;
  i64 pitch, plane;
  int rowsPerToken;
};

/// The tiles of a product that are divided by columns (Tail.cuh). Tiles are
/// numbered along the groups of rows first.
struct TailArgs {
  float *sums; ///< Of each part of each of these tiles.
  int groups;  ///< Of rows of activations.
  int divided; ///< The number of these tiles, which are the first ones.
  int parts;   ///< Of each.
};
struct GemmTailArgs : GemmArgs {
  TailArgs tail;
};
struct HalfGemmTailArgs : HalfGemmArgs {
  TailArgs tail;
};

/// Number of blocks that copy matrices, whatever the rest of a grid does.
constexpr int kBringBlocks = 32;

/// Copies the matrices of `count` experts, of one weight or two, from the
/// host's memory, if the experts have rows.
struct Bring {
  const u8 *from[2];
  u8 *to[2];
  i64 matrixBytes[2]; ///< 0: there is no such weight.
  const int *offsets; ///< [count + 1]
  int count;
};

struct StreamExpertsArgs {
  const Step *step;
  Bring part;
};

/// A part of the experts, which was copied before, and the next part. Blocks
/// with z = 0 copy the next part, the others multiply.
struct GemmPartArgs : GemmArgs {
  Bring next;
};
struct HalfGemmPartArgs : HalfGemmArgs {
  Bring next;
};

/// MlaAttention reads [heads][positions][nope + value] floats: the keys and
/// values of the heads from `firstHead` on, for the positions that each
/// sequence sees, one sequence after the other. Decompress.cu computes `cols`
/// of their columns, from `column` on, from the cache's latents and a matrix
/// [heads, cols, latent], or the transposed one.
struct DecompressArgs {
  const Step *step;
  Kv kv;
  Matrix w;
  float *out;
  i64 positions; ///< The most of all sequences together.
  int firstHead, latent, cols, column, width; ///< width: nope + value
};

/// The same as 16-bit rows (DecompressMma.cu), which FlashAttention.cu reads
/// like a cache of groups of heads, of which each has its own: [positions][keys
/// of all heads | values of all heads], each in whole 64 columns. A sequence's
/// rows begin at a multiple of sixteen.
struct DecompressRowsArgs {
  const Step *step;
  Kv kv;
  Matrix w;
  u16 *out;
  i64 rowElements;
  int firstHead, cols;
  int rope; ///< Columns of the cache that follow a key's; 0 for values.
  int at, headPitch; ///< Columns of the first head, and of each.
};

/// MlaAttention for the heads whose keys and values are decompressed.
struct MlaHeadsArgs {
  const Step *step;
  const float *q;
  i64 qStride;
  Kv kv;
  const float *rows; ///< The result of Decompress.cu.
  i64 positions;
  float *out;
  i64 outStride;
  int firstHead, heads, nope, rope, latent, value; ///< heads: those of q.
  float scale;
};

/// Rows that have the same parts in FlashParts.cuh: as many positions, from a
/// multiple of that.
constexpr int kPartRows = 1024;

/// Attention of a prompt, of which the KV heads from `wholeHeads` on are
/// divided into parts.
struct AttentionPartsArgs : AttentionArgs {
  /// [T * parts] rows, `pitch` apart: [heads * value sums | heads maxima |
  /// heads sums of weights].
  float *parts;
  i64 pitch;
  int wholeHeads;
  int tiles; ///< Of a head.
};
/// Adds them up.
struct CombinePartsArgs {
  const Step *step;
  const float *parts;
  i64 pitch;
  float *out; ///< Of the first of these heads.
  i64 outStride;
  int heads;
};

/// Rows of a chunk, and number of floats of DeltaChunk.cuh's ChunkMix: the
/// inverse, the products of queries and keys, and two numbers for each row.
constexpr int kDeltaRows = 16;
constexpr int kDeltaMixFloats = 2 * kDeltaRows * kDeltaRows + 2 * kDeltaRows;

/// DeltaRule in chunks of kDeltaRows rows. DeltaPrepare.cu computes, for
/// DeltaApply.cu, `keys` of each chunk and key head and `mixes` of each chunk
/// and head.
struct DeltaChunkArgs : DeltaRuleArgs {
  float *keys, *mixes;
};

/// SparseAttention whose rows are cut into KV splits. With splits > 1 the sums
/// of a token's splits go to `spans`, [T * splits, heads * (value + 2)] as for
/// CombineSplits, and SparseCombine.cu combines them into `out`.
struct SparseSplitsArgs : SparseAttentionArgs {
  float *spans;
  int splits;
};
/// The same of BlockAttention.
struct BlockSplitsArgs : BlockAttentionArgs {
  float *spans;
  int splits;
};

//===----------------------------------------------------------------------===//
// Launches of several kernels (Fuse.h)
//===----------------------------------------------------------------------===//

/// The shape of one kernel of a fused launch.
struct PieceShape {
  u32 grid[3], threads;
  u32 blocks; ///< Blocks of the launch that begin with this kernel.
  /// For a kernel that follows tiles of another one: the first of its tickets,
  /// how many of the other's blocks are side by side in a tile, and how many of
  /// its own blocks, along its axis, belong to a tile.
  u32 ticket, tileBlocks, perTile;
  /// (2^32 - 1) / d for grid[0], grid[1], tileBlocks and perTile, by which
  /// fused::divide() divides.
  u32 inverse[4];
};

constexpr int kMaxPieces = 12;

/// Words in the host's memory, by which the host and a launch synchronise in
/// the middle of a step (runtime/device/StepEvents.h); null if they do not.
struct HostSync {
  const u32 *awaited; ///< A launch of one block begins when it is not 0,
  const u64 *head;    ///< with these tokens and sequences of Step.
  u32 *signalled;     ///< Set by the block that ends last.
  /// If `awaited` is still 0 after so many nanoseconds, `late` is set, and the
  /// step has no tokens.
  u32 *late;
  u64 patience;
};

/// Weights that a later launch reads whatever its step is. Blocks that have
/// ended bring them into L2 while the last block goes on alone.
struct Prefetch {
  const u8 *begin;
  u64 bytes;
};
constexpr int kMaxPrefetches = 4;

/// The parameter begins with this. The struct of each kernel follows, aligned
/// to eight bytes.
struct FusedArgs {
  Step *step;
  HostSync hostSync;
  Prefetch prefetch[kMaxPrefetches];
  PieceShape shape[kMaxPieces];
};

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_ABI_H
