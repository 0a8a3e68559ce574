//===- FlashMerge.cuh - Adds the sums of a tile's parts ---------*- C++ -*-===//
//
// Included by FlashAttention.cu with MOE_PARTS. The blocks of a tile's parts
// (FlashParts.cuh) add their sums in pairs: those of parts 0 and 1, of 2 and 3,
// and so on; then the sums of these pairs in the same way, until there is one.
// Of the two blocks of a pair, the one that ends first stores its sums; the
// other one adds them to its own, which stay in registers, and goes on with the
// next pair. The block that is left writes the results. So a tile of n parts
// stores and loads n - 1 sums, and on the way to the result a block loads at
// most log2(n) of them.
//
// Results do not depend on which block ends first: which parts are added
// follows from their numbers, and the sum of two products of two numbers has
// the same bits in either order. A part whose keys a row does not see adds
// zeros, and the parts that no row of a tile sees would be the last ones of all
// sums: the bits of a row do not depend on other rows of its tile.
//
//===----------------------------------------------------------------------===//

#include "kernels/cuda/Tickets.cuh"

/// A thread stores its sums as words of sixteen bytes: for each sixteen of
/// queries the maxima and the sums of weights, and then a word for every tile
/// of columns. Neighbouring threads store neighbouring words.
constexpr int kThreads = 32 * kWarps;
constexpr int kSumWords = kTall * (1 + kColumnTiles);

/// Stores what a thread has.
MOE_DEVICE void storeSums(float4 *to, const float (&most)[kTall][2],
                          const float (&sum)[kTall][2],
                          const float (&sums)[kTall][kColumnTiles][4]) {
#pragma unroll
  for (int tall = 0; tall < kTall; ++tall) {
    __stcg(to + tall * kThreads, make_float4(most[tall][0], most[tall][1],
                                             sum[tall][0], sum[tall][1]));
#pragma unroll
    for (int i = 0; i < kColumnTiles; ++i) {
      const float(&x)[4] = sums[tall][i];
      __stcg(to + (kTall + tall * kColumnTiles + i) * kThreads,
             make_float4(x[0], x[1], x[2], x[3]));
    }
  }
}

/// Loads what another block stored. A compiler would otherwise move each load
/// to just before its use.
MOE_DEVICE float4 loadStored(const float4 *from) {
  float4 x;
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "l"(from)
               : "memory");
  return x;
}

/// x * ofX + y * ofY. A compiler would round only one of the products, and then
/// the bits would depend on which one is x.
MOE_DEVICE float addScaled(float x, float ofX, float y, float ofY) {
  return __fadd_rn(__fmul_rn(x, ofX), __fmul_rn(y, ofY));
}

/// Adds what the same thread of another block stored. The loads of kAhead words
/// are in flight together: 16 KB of a block of 256 threads.
MOE_DEVICE void addStored(const float4 *from, float (&most)[kTall][2],
                          float (&sum)[kTall][2],
                          float (&sums)[kTall][kColumnTiles][4]) {
  constexpr int kAhead = 4;
#pragma unroll
  for (int tall = 0; tall < kTall; ++tall) {
    float4 stats = loadStored(from + tall * kThreads);
    float own[2], other[2];
#pragma unroll
    for (int at = 0; at < kColumnTiles; at += kAhead) {
      float4 ahead[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead && at + i < kColumnTiles; ++i)
        ahead[i] = loadStored(from + (kTall + tall * kColumnTiles + at + i) *
                                         kThreads);
      if (at == 0)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float theirs = half ? stats.y : stats.x;
          float top = fmaxf(most[tall][half], theirs);
          float shift = top == -infinity() ? 0 : top;
          own[half] = exp2Of(most[tall][half] - shift);
          other[half] = exp2Of(theirs - shift);
          most[tall][half] = top;
          sum[tall][half] = addScaled(sum[tall][half], own[half],
                                      half ? stats.w : stats.z, other[half]);
        }
#pragma unroll
      for (int i = 0; i < kAhead && at + i < kColumnTiles; ++i) {
        float4 y = ahead[i];
        float(&x)[4] = sums[tall][at + i];
        x[0] = addScaled(x[0], own[0], y.x, other[0]);
        x[1] = addScaled(x[1], own[0], y.y, other[0]);
        x[2] = addScaled(x[2], own[1], y.z, other[1]);
        x[3] = addScaled(x[3], own[1], y.w, other[1]);
      }
    }
  }
}

/// Adds the sums of the other parts of the block's tile to its own. Returns
/// whether this is the block that then has all of them; `work` then has all
/// keys.
MOE_DEVICE bool mergeParts(Work &work, float (&most)[kTall][2],
                           float (&sum)[kTall][2],
                           float (&sums)[kTall][kColumnTiles][4]) {
  if (!work.isPart())
    return true;
  // Computed again, instead of a register for each in the loop over keys.
  int block = blockIdx.x;
  asm volatile("" : "+r"(block));
  const int length = work.span.end - work.span.begin;
  const int part = work.span.begin / length, tile = work.dividedTile(block);
  // Later parts than the last row's have no keys, and their blocks have ended.
  const int last = min(work.first + kRows, work.count) - 1;
  const int used = (work.sequence.position + last / kHeads) / length + 1;
  // Bit n of the tile's counter says that one block has stored its sums of the
  // pair of which the second half begins with part n.
  u32 *stored = work.a.tickets + tile;
  constexpr int kSlot = kSumWords * kThreads;
  float4 *slots = (float4 *)work.a.parts +
                  i64(tile) * (2 * (MOE_PARTS - 1) * kSlot) + threadIdx.x;
  __shared__ u32 word;
  u32 before = drawTicket(word, [&] { return readTicket(stored); });
#pragma unroll 1
  for (int width = 1; width < used; width *= 2) {
    int second = (part & -width) | width;
    if (second >= used)
      continue;
    u32 bit = 1u << second;
    // Both blocks of a pair have room for their sums: each may find that the
    // other one has not stored yet.
    int own = 2 * (second - 1) + (part & width ? 1 : 0);
    if (!(before & bit)) {
      storeSums(slots + own * kSlot, most, sum, sums);
      before = drawTicket(word, [&] {
        u32 last;
        asm volatile("atom.acquire.gpu.global.or.b32 %0, [%1], %2;"
                     : "=r"(last)
                     : "l"(stored), "r"(bit)
                     : "memory");
        return last;
      });
      if (!(before & bit))
        return false;
    }
    addStored(slots + (own ^ 1) * kSlot, most, sum, sums);
  }
  if (threadIdx.x == 0) // Resets the counter for the next launch.
    asm volatile("st.relaxed.gpu.global.u32 [%0], 0;" ::"l"(stored) : "memory");
  work.span = {0, kAllKeys};
  return true;
}
