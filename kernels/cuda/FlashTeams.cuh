//===- FlashTeams.cuh - Teams of warps multiply in turns --------*- C++ -*-===//
//
// Included by FlashAttention.cu for prompts on an A100 (MOE_TEAMS), where a
// tile takes tensor cores no longer than softmax, barriers and copies. A block
// has two teams of four warps, one warp of each on every scheduler. While one
// team multiplies, the other one makes weights of its scores; then they change
// (the method of FlashAttention-3, arXiv 2407.08608, section 3.1):
//
//   team 0   multiply 0 | weigh 0    | multiply 1 | weigh 1    | ...
//   team 1              | multiply 0 | weigh 0    | multiply 1 | ...
//
// To multiply tile i is to add the values of tile i - 1 and to compute the
// scores of tile i, all products one after the other. A team begins when the
// other one has issued its last loads (beginTurn, endTurn).
//
// Tiles are in a ring of three stages. After its products of tile i, a warp
// copies its part of the keys of tile i + 2 and of the values of tile i + 1:
// both teams have begun tile i, so nobody reads tile i - 1's keys and tile
// i - 2's values any more, which these replace.
//
//===----------------------------------------------------------------------===//

constexpr int kTeamWarps = kWarps / 2;
static_assert(kStages == 3 && kWarps == 8, "as above");

/// Waits until the other team has ended its turn, and sees what it copied.
/// Barriers 1 and 2 belong to the teams; all warps use barrier 0.
MOE_DEVICE void beginTurn(int team) { waitAt(1 + team); }
/// Lets the other team begin.
MOE_DEVICE void endTurn(int team) { arriveAt(2 - team); }

/// Matrix loads of a turn, in order: of a tile's values, then of the next
/// one's keys.
constexpr int kValuesOfTurn = kGroups * kValueLoads,
              kKeysOfTurn = kGroups * kSteps;
/// Loads that are in flight while a warp multiplies; in its turn, no other warp
/// hides their latency.
constexpr int kLoadsAhead = 2;

/// Tiles and operands that a warp reads in its turn.
struct Turn {
  Swizzle values, keys;
  u32 operands[kLoadsAhead + 1][4]; ///< Operands that the last loads have read.
  u32 query[2][kTall][kParts][4];   ///< Queries for this step and the next one.

  /// A lane's rows of matrices, see addValues() and multiplyKeys().
  __device__ __forceinline__ Turn(const u8 *valueTile, const u8 *keyTile,
                                  int lane)
      : values(sharedAddress(valueTile) +
                   (lane / 8 % 2 * 8 + lane % 8) * kValuePitch,
               lane / 8 % 2 * 8 + lane % 8, lane / 16),
        keys(sharedAddress(keyTile) + (lane / 16 * 8 + lane % 8) * kKeyPitch,
             lane / 16 * 8 + lane % 8, lane / 8 % 2) {}

  /// Begins load number `I` of `Count`.
  template <int I, int Count> __device__ __forceinline__ void load() {
    if constexpr (I >= Count)
      return;
    else if constexpr (I < kValuesOfTurn)
      loadValues<I>(operands[I % (kLoadsAhead + 1)], values);
    else
      loadKeys<I - kValuesOfTurn>(operands[I % (kLoadsAhead + 1)], keys);
  }
  template <class QueryOf>
  __device__ __forceinline__ void loadQueries(int step, QueryOf queryOf) {
#pragma unroll
    for (int tall = 0; tall < kTall; ++tall)
      queryOf(query[step % 2][tall], step, tall);
  }

  /// Executes the first `Count` loads of a turn and their products: adds
  /// weights * values to `sums`, and queries * keys to `scores`. Calls `loaded`
  /// when the last load has been issued.
  template <int Count, class QueryOf, class Loaded>
  __device__ __forceinline__ void
  multiply(float (&sums)[kTall][kColumnTiles][4],
           const u32 (&weights)[kTall][kGroups][kParts][4],
           float (&scores)[kTall][2 * kGroups][4], QueryOf queryOf,
           Loaded loaded) {
    static_assert(kLoadsAhead == 2);
    load<0, Count>();
    load<1, Count>();
    multiplyFrom<0, Count>(sums, weights, scores, queryOf, loaded);
  }

private:
  /// The products of load `I`, and those after it.
  template <int I, int Count, class QueryOf, class Loaded>
  __device__ __forceinline__ void
  multiplyFrom(float (&sums)[kTall][kColumnTiles][4],
               const u32 (&weights)[kTall][kGroups][kParts][4],
               float (&scores)[kTall][2 * kGroups][4], QueryOf queryOf,
               Loaded loaded) {
    if constexpr (I < Count) {
      constexpr int key = I - kValuesOfTurn, step = key / kGroups;
      if constexpr (key >= 0 && key % kGroups == 0 && step + 1 < kSteps)
        loadQueries(step + 1, queryOf);
      load<I + kLoadsAhead, Count>();
      constexpr int kLast = Count - 1 - kLoadsAhead;
      if constexpr (I == (kLast > 0 ? kLast : 0))
        loaded();
      // Otherwise the assembler moves loads to just before their use.
      __syncwarp();
      const u32(&b)[4] = operands[I % (kLoadsAhead + 1)];
#pragma unroll
      for (int tall = 0; tall < kTall; ++tall)
        if constexpr (key < 0) {
          constexpr int group = I / kValueLoads, column = I % kValueLoads * 2;
          addParts(sums[tall][column], weights[tall][group], b[0], b[1]);
          addParts(sums[tall][column + 1], weights[tall][group], b[2], b[3]);
        } else {
          constexpr int group = key % kGroups;
          const u32(&q)[kParts][4] = query[step % 2][tall];
          addParts(scores[tall][2 * group], q, b[0], b[1]);
          addParts(scores[tall][2 * group + 1], q, b[2], b[3]);
        }
      multiplyFrom<I + 1, Count>(sums, weights, scores, queryOf, loaded);
    }
  }
};

/// Makes the values of a tile zero. All threads of the block call this.
MOE_DEVICE void clearValues(u8 *tile) {
  auto *values = (uint4 *)(tile + kKeys * kKeyPitch);
  for (int i = threadIdx.x; i < kKeys * kValuePitch / 16; i += 32 * kWarps)
    values[i] = make_uint4(0, 0, 0, 0);
}
