//===- Abi.h - What CUDA kernels receive ------------------------*- C++ -*-===//
//
// Included by the kernels, which NVRTC compiles, and by the host, which fills
// these structs in: so no header of anybody's, and types of the same size on
// both sides. Pointers are device addresses.
//
// A kernel has one parameter, a struct of this file, which a captured graph
// keeps: what changes from step to step is Step, in device memory, written
// before the step. Grids are those of the most rows that a phase may have;
// blocks of rows that a step has not got return at once.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_ABI_H
#define MOE_KERNELS_CUDA_ABI_H

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

/// Counters of blocks that have ended; see Fuse.h.
constexpr int kTickets = 512;

/// moek::Step, and zeros, which launches leave as they find them.
struct Step {
  int tokens, sequences;
  Sequence sequence[kMaxSequences];
  u32 tickets[kTickets];
};

/// Matrices of a weight; strides in bytes.
struct Matrix {
  const u8 *data;
  i64 rows, cols, outerStride, rowStride;
};

/// moek::KvView.
struct Kv {
  u8 *data;
  i64 width, rowStride;
};

struct EmbedArgs {
  const Step *step;
  const int *tokens;
  Matrix table;
  float *out;
  i64 outStride, begin, cols;
};

struct RopeTableArgs {
  const Step *step;
  const float *invFreq;
  float *out;
  int dim;
  float scale;
};

struct RmsNormArgs {
  const Step *step;
  const float *x, *weight;
  float *out;
  i64 xStride, outStride;
  int groups, cols;
  float eps;
};

struct QuantizeArgs {
  const Step *step;
  const float *x;
  u8 *out;
  i64 xStride, outStride, cols;
  int rowsPerToken;
};

/// ActivationMul, SigmoidMul, Add: `perToken` elements of each token.
struct PairArgs {
  const Step *step;
  const float *x, *y;
  float *out;
  i64 perToken;
};

struct ScaleArgs {
  const Step *step;
  const float *x;
  float *out;
  i64 perToken;
  float factor, softcap;
};

struct CopyArgs {
  const Step *step;
  const u8 *x;
  u8 *out;
  i64 tokenBytes, fixedBytes;
};

struct RopeArgs {
  const Step *step;
  float *x;
  const float *table;
  i64 stride;
  int heads, headStride, offset, dim;
};

struct MlaLatentArgs {
  const Step *step;
  const float *x, *weight, *table;
  i64 stride;
  Kv kv;
  int latent, rope;
  float eps;
};

struct RouterArgs {
  const Step *step;
  const float *logits, *bias, *expertScale;
  int *ids;
  float *weights;
  i64 stride;
  int experts, topK, groups, groupsUsed, groupBest, scoring, normalize;
  float scale;
};

struct SplitChoicesArgs {
  const Step *step;
  const int *ids;
  const float *weights;
  int *firstIds;
  float *firstWeights;
  int *lastIds;
  float *lastWeights;
  int topK, last;
};

/// moek::ExpertSlice, but that `count` says how many there are of all, too.
struct ExpertSlice {
  const float *map;
  int begin, count;
};

struct ExpertGroupArgs {
  const Step *step;
  const int *ids;
  int *offsets, *slots;
  int topK;
  ExpertSlice slice;
};

struct ExpertsActivationMulArgs {
  const Step *step;
  const float *gate, *up, *gateScale, *upScale;
  const int *offsets, *slots;
  float *out;
  i64 cols;
  int experts;
};

struct ExpertsCombineArgs {
  const Step *step;
  const float *y, *weights;
  float *out;
  const int *ids;
  i64 cols;
  int topK, accumulate;
  ExpertSlice slice;
};

/// Linear, GateUp, HeadLinear and what experts do: rows of `act` times `w` (and
/// `up`), each row with the matrix that its head or expert has.
struct GemmArgs {
  const Step *step;
  const u8 *act;
  i64 actStride; ///< Bytes.
  Matrix w;
  Matrix up;
  const float *bias, *upBias; ///< Of each matrix its rows', or null.
  float *out;
  i64 outStride;
  const int *offsets, *slots; ///< Of experts.
  int experts, topK;
  int actPerToken; ///< act's row of slot s is s / topK, else s.
  int accumulate;
  int tail; ///< HeadLinear: columns of a head that are copied.
};

/// How many blocks bring matrices, whatever the rest of a grid does.
constexpr int kBringBlocks = 32;

/// Matrices of `count` experts, of one weight or two, to be brought from the
/// host's memory: those that have rows.
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

/// A part of experts, which was brought before, and the next one. Blocks with
/// z = 0 bring, others multiply.
struct GemmPartArgs : GemmArgs {
  Bring next;
};

struct AbsorbQueryArgs {
  const Step *step;
  const float *q;
  i64 qStride;
  Matrix w;
  float *out;
  i64 outStride;
  int heads, nope, rope, latent;
};

struct LatentAttentionArgs {
  const Step *step;
  const float *q;
  i64 qStride;
  Kv kv;
  float *out;
  i64 outStride;
  int heads, latent, rope, splits;
  float scale;
};

struct LatentCombineArgs {
  const Step *step;
  const float *x;
  i64 xStride;
  float *out;
  i64 outStride;
  int heads, latent, splits, window;
};

struct KvStoreArgs {
  const Step *step;
  const float *k, *v;
  i64 kStride, vStride;
  Kv kv;
  int heads, key, value, ring;
};

struct AttentionArgs {
  const Step *step;
  const float *q, *sinks;
  i64 qStride;
  Kv kv;
  float *out;
  i64 outStride;
  int heads, kvHeads, key, value, splits, window, ring;
  float scale, softcap;
};

/// MlaAttention reads [heads][positions][nope + value] floats: keys and values
/// of the heads from `firstHead` on, for what each sequence sees, one after the
/// other. This makes `cols` of their columns, from `column` on, out of the
/// cache's latents and a matrix [heads, cols, latent], or transposed.
struct DecompressArgs {
  const Step *step;
  Kv kv;
  Matrix w;
  float *out;
  i64 positions; ///< Of all sequences together, at most.
  int firstHead, latent, cols, column, width; ///< width: nope + value
};

struct MlaAttentionArgs {
  const Step *step;
  const float *q;
  i64 qStride;
  Kv kv;
  const float *rows; ///< What Decompress makes.
  i64 positions;
  float *out;
  i64 outStride;
  int firstHead, heads, nope, rope, latent, value; ///< heads: of a row of q
  float scale;
};

struct RegroupArgs {
  const Step *step;
  const float *x;
  float *out;
  i64 xStride, outStride, width;
  int groups, offset, parts[3];
};

/// `state` of these: a row per sequence (kernels/KvCache.h).
struct ShortConvArgs {
  const Step *step;
  const float *x, *weight;
  float *out;
  i64 xStride, outStride, cols;
  Kv state;
};

struct DeltaGatesArgs {
  const Step *step;
  const float *beta, *alpha, *a, *dt;
  float *out;
  i64 heads;
};

struct DeltaRuleArgs {
  const Step *step;
  const float *x, *gates;
  float *out;
  i64 xStride, outStride, begin;
  Kv state;
  int keyHeads, heads, value, tiled;
  float eps;
};

/// Floats of DeltaChunk.cuh's ChunkMix: a matrix that is an inverse, one of
/// what is seen, and of each row two numbers.
constexpr int kDeltaRows = 16;
constexpr int kDeltaMixFloats = 2 * kDeltaRows * kDeltaRows + 2 * kDeltaRows;

/// In chunks of kDeltaRows rows. `keys`, `mixes`: of each chunk and key head,
/// and of each chunk and head, what DeltaPrepare makes for DeltaApply.
struct DeltaChunkArgs : DeltaRuleArgs {
  float *keys, *mixes;
};

struct LayerNormArgs {
  const Step *step;
  const float *x, *weight, *bias;
  float *out;
  i64 xStride, outStride;
  int cols;
  float eps;
};

struct RowStoreArgs {
  const Step *step;
  const float *x;
  i64 xStride;
  Kv kv;
  int ring;
};

struct IndexScoresArgs {
  const Step *step;
  const float *q, *weights;
  i64 qStride, weightsStride;
  Kv kv;
  float *out;
  i64 outStride;
  int heads, key, ratio;
  float scale;
};

struct IndexSelectArgs {
  const Step *step;
  const float *scores;
  i64 scoresStride;
  int *chosen;
  int topK, ratio;
};

/// With splits above 1 the sums of a token's spans go to `spans`, [T * splits,
/// heads * (value + 2)] as LatentCombine has them, and from there to `out`.
struct SparseAttentionArgs {
  const Step *step;
  const float *q, *sinks;
  i64 qStride;
  Kv kv, entries;
  const int *chosen;
  float *out, *spans;
  i64 outStride;
  int heads, key, value, window, ratio, topK, ring, splits;
  float scale;
};

struct CompressArgs {
  const Step *step;
  const float *kv, *gate, *ape;
  i64 kvStride, gateStride;
  Kv state;
  float *out;
  i64 outStride, cols;
  int ratio, overlap;
};

struct EntryStoreArgs {
  const Step *step;
  const float *x, *weight, *invFreq;
  i64 xStride;
  Kv kv;
  int cols, dim, ratio;
  float eps;
};

struct HyperWeightsArgs {
  const Step *step;
  const float *x, *scale, *base;
  float *out;
  i64 xStride, outStride;
  int cols, streams, iterations;
  float eps;
};

/// HyperCollapse, HyperSpread.
struct HyperStreamsArgs {
  const Step *step;
  const float *y, *x, *weights;
  i64 yStride, xStride, weightsStride;
  float *out;
  i64 outStride, cols;
  int streams;
};

struct ClampedMulArgs {
  const Step *step;
  const float *gate, *up;
  float *out;
  i64 perToken;
  float limit;
};

/// Whose choice is the table's row for the token.
struct HashRouterArgs : RouterArgs {
  const int *tokens, *table;
};

//===----------------------------------------------------------------------===//
// Launches of several kernels (Fuse.h)
//===----------------------------------------------------------------------===//

/// Of one of them.
struct PieceShape {
  u32 grid[3], threads;
  u32 blocks; ///< That begin with it, of the launch's.
  /// Of one that follows another's tiles: the first of its tickets, and
  /// how many of the other's blocks are side by side in a tile.
  u32 ticket, tileBlocks;
};

constexpr int kMaxPieces = 12;

/// Words in memory of the host, by which it and a launch meet in the middle of
/// a step (runtime/device/StepEvents.h); null: they do not.
struct Meeting {
  const u32 *awaited; ///< A launch of one block begins when it is not 0,
  const u64 *head;    ///< with these tokens and sequences of Step.
  u32 *told;          ///< Set by the block that ends last.
};

/// The parameter: this, then each piece's own, aligned to eight bytes.
struct FusedArgs {
  Step *step;
  Meeting meeting;
  PieceShape shape[kMaxPieces];
};

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_ABI_H
