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

/// A sequence of the step, as moek::SequenceRows: its rows are `begin` ..
/// `begin` + `count` - 1 of the step, at positions from `position` on. `pages`
/// is its page table, `state` its row (or ring of rows) in caches of states.
struct Sequence {
  int begin, count, position, state;
  const int *pages;
};

/// The number of counters in Step by which blocks of a launch find out which of
/// them ends last (Tickets.cuh): those of fused launches, of products whose
/// tiles are divided, and of attention in parts.
constexpr int kTickets = 512;

/// moek::Step, and these counters. Every launch finds all of them 0, and leaves
/// them 0.
struct Step {
  int tokens, sequences;
  Sequence sequence[kMaxSequences];
  u32 tickets[kTickets];
};

/// The device form of moek::WeightView; strides in bytes.
struct Matrix {
  const u8 *data;
  i64 rows, cols, outerStride, rowStride;
};

/// The device form of moek::KvView.
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

/// Arguments of Linear, GateUp, HeadLinear, ExpertsLinear and ExpertsGateUp:
/// each row of `act` is multiplied with `w`, with a gate also with `up`, or
/// with the matrix of its head or expert in them.
struct GemmArgs {
  const Step *step;
  const u8 *act;
  i64 actStride; ///< Distance of rows in bytes.
  Matrix w;
  Matrix up;
  const float *bias, *upBias; ///< [matrices, w.rows] or null.
  float *out;
  i64 outStride;
  const int *offsets, *slots; ///< Results of ExpertGroup; null without experts.
  int experts, topK;
  int actPerToken; ///< Slot s reads row s / topK of act instead of row s.
  /// Whether results are added to `out` instead of overwriting it.
  int accumulate;
  int tail; ///< HeadLinear: columns of a head of act copied behind its result.
};

/// Arguments of Narrow.cu and NarrowA8.cu, which convert `rowsPerToken` rows of
/// `cols` columns of each token to 16-bit numbers for HalfGemm.cu.
struct NarrowArgs {
  const Step *step;
  const u8 *x;
  i64 tokenStride, rowStride; ///< Distances in bytes.
  /// [rows, pitch]; each further part follows after `plane` elements.
  u16 *out;
  float *scales;    ///< [rows]; only with F16.
  i64 pitch, plane; ///< pitch: cols rounded up to 32; the rest is zeros.
  // With MOE_TILED `out` is [pitch / 64, rows, 64], where rows are a multiple
  // of MOE_TILED, 64 columns of all rows are `plane` elements, and pitch is
  // rounded up to 64.
  int rowsPerToken, cols;
  /// The result of ExpertGroup, if rows are slots of experts. Only the first
  /// `*slotCount` of `slots` are narrowed, because rows of experts on other
  /// devices were never written. Null: all rows are.
  const int *slots, *slotCount;
};

/// Arguments of HalfGemm.cu: the activations are those that NarrowArgs made.
struct HalfGemmArgs : GemmArgs {
  const u16 *narrowed;
  const float *scales;
  i64 pitch, plane;
  int rowsPerToken;
};

/// A part of the columns of the tiles of a tile column (Tail.cuh).
struct TailPart {
  u16 begin, end; ///< Range of steps along the columns.
  u8 column;      ///< Number of the tile column.
  u8 number;      ///< Number among the `count` parts of the tile column.
  u8 count;
  u8 first; ///< Number of the tile column's first part among all parts.
};
constexpr int kMostTailParts = 192;

/// How the tiles of the first tile columns of a product are divided (Tail.cuh).
struct TailArgs {
  float *sums;  ///< The partial sums, for each part of each divided tile.
  u32 *tickets; ///< [tile columns][groups] counters, if blocks add in place.
  int groups;   ///< The number of groups of rows of activations.
  int divided;  ///< The number of divided tile columns.
  /// The number of parts of a tile, or in place of all divided tile columns.
  int parts;
  /// Sorted in the order of blocks, if blocks add in place.
  TailPart part[kMostTailParts];
};
struct GemmTailArgs : GemmArgs {
  TailArgs tail;
};
struct HalfGemmTailArgs : HalfGemmArgs {
  TailArgs tail;
};

/// The most blocks of a grid that copy experts from the host (Bring.cuh).
constexpr int kBringBlocks = 32;

/// Experts to copy from the host's memory: `count` consecutive matrices of one
/// weight, or of two (gate and up). Expert e is copied if it has rows, which
/// means that offsets[e] < offsets[e + 1].
struct Bring {
  const u8 *from[2];
  u8 *to[2];
  i64 matrixBytes[2]; ///< Bytes of a matrix; 0: there is no such weight.
  const int *offsets; ///< [count + 1]
  int count;
};

struct StreamExpertsArgs {
  const Step *step;
  Bring part;
};

/// A launch that multiplies experts copied before and copies the next ones. The
/// grid has two layers: blocks with z = 0 copy `next`, those with z = 1
/// multiply.
struct GemmPartArgs : GemmArgs {
  Bring next;
};
struct HalfGemmPartArgs : HalfGemmArgs {
  Bring next;
};

/// Arguments of Decompress.cu. Its result, which MlaAttention.cu reads, is
/// floats [heads][positions][nope + value]: keys without their rope part, and
/// values, of the heads from `firstHead` on, for all positions that a sequence
/// sees, one sequence after the other. A launch computes `cols` of these
/// columns, from `column` on: the product of cached latents with the matrices
/// [heads, cols, latent], or [heads, latent, cols] with MOE_TRANSPOSED.
struct DecompressArgs {
  const Step *step;
  Kv kv;
  Matrix w;
  float *out;
  i64 positions; ///< The most positions of all sequences together.
  int firstHead, latent, cols, column, width; ///< width: nope + value
};

/// Arguments of DecompressMma.cu, whose result has 16-bit rows.
/// FlashAttention.cu reads them as a cache in which every head has keys and
/// values of its own. Row [keys of all heads | values of all heads]; each key
/// and value is padded to whole 64 columns. A sequence's rows begin at a
/// multiple of sixteen.
struct DecompressRowsArgs {
  const Step *step;
  Kv kv;
  Matrix w;
  u16 *out;
  i64 rowElements;
  int firstHead, cols;
  int rope; ///< Columns of the cache that follow a key's; 0 for values.
  int at, headPitch; ///< First column of the first head; columns of a head.
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
  /// heads: the number of all heads in q.
  int firstHead, heads, nope, rope, latent, value;
  float scale;
};

/// Rows at positions p with the same p / kPartRows have the same division of
/// keys into parts (FlashParts.cuh).
constexpr int kPartRows = 1024;

/// Attention of a prompt in which blocks for the KV heads from `wholeHeads` on
/// see only a part of the keys each (FlashParts.cuh).
struct AttentionPartsArgs : AttentionArgs {
  /// Sums that blocks store for others, aligned to sixteen bytes.
  float *parts;
  u32 *tickets; ///< A counter of Step for each divided tile.
  int wholeHeads;
  int tiles; ///< Tiles of queries of a KV head; blocks without rows return.
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
/// Arguments of BlockAttention's splits.
struct BlockSplitsArgs : BlockAttentionArgs {
  float *spans;
  int splits;
};

//===----------------------------------------------------------------------===//
// Launches of several kernels (Fuse.h)
//===----------------------------------------------------------------------===//

/// One kernel (piece) of a fused launch, and which blocks execute it.
struct PieceShape {
  u32 grid[3], threads;
  /// Number of the launch's blocks that begin with this piece, or 0.
  u32 blocks;
  /// For a piece that follows tiles of another one: `ticket` is the number of
  /// its first tile's counter, `tileBlocks` how many of the other piece's
  /// blocks side by side make up a tile, and `perTile` how many of its own
  /// blocks, along its axis, a tile has.
  u32 ticket, tileBlocks, perTile;
  /// The integers (2^32 - 1) / d for d = grid[0], grid[1], tileBlocks and
  /// perTile, with which fused::divide() divides.
  u32 inverse[4];
};

constexpr int kMaxPieces = 12;

/// Words in the host's memory, by which the host and a launch synchronise in
/// the middle of a step (runtime/device/StepEvents.h); null if they do not.
struct HostSync {
  const u32 *awaited; ///< A launch of one block waits until this is not 0.
  const u64 *head; ///< Tokens and sequences of the step, which the host gives.
  u32 *signalled;  ///< The block that ends last sets this.
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
