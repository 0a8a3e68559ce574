//===- Tail.cuh - Tiles that are divided by columns -------------*- C++ -*-===//
//
// A product whose tiles are no multiple of the blocks that a GPU holds would
// keep multiprocessors idle in the last wave. So the tiles of the first tile
// columns are divided by columns: blocks multiply a part of the columns of a
// tile each, and store their sums. Blocks of whole tiles follow.
//
// The sums of a tile are added in the order of columns. Where tiles have few
// parts, the block that ends last of a tile's does it (MOE_TAIL 3). Else, parts
// are of the same length (MOE_TAIL 1), and a second launch adds them (MOE_TAIL
// 2), in which more blocks share that.
//
// The host chooses parts from shapes alone (LaunchTail.cpp), and all groups of
// rows have the same: results do not depend on which block ends first, nor
// those of a row on the other rows of the step.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_TAIL_CUH
#define MOE_KERNELS_CUDA_TAIL_CUH

#include "kernels/cuda/AsyncCopy.cuh"
#include "kernels/cuda/Groups.cuh"
#include "kernels/cuda/Tickets.cuh"

/// What a block multiplies: the weight rows of tile column `column` with the
/// rows of `job`.
struct Tile {
  Job job;
  int column;
};
/// Steps `begin` .. `end` - 1 along the columns.
struct Range {
  int begin, end;
};

#ifdef MOE_TAIL
/// The partial sums that make up a tile's: `count` of them, which begin at
/// number `first` and are `apart` numbers apart. Those of part `own` are the
/// block's.
struct PartSums {
  int first, apart, count, own;
};

#if MOE_TAIL == 3
/// Whether block number `block` along x multiplies a part only.
MOE_DEVICE bool isPart(const TailArgs &t, int block) {
  return block < t.parts * t.groups;
}
/// Returns what block number `block` along x multiplies.
template <class Args> MOE_DEVICE Tile findTile(const Args &a, int block) {
  const TailArgs &t = a.tail;
  int i = block / t.groups;
  u32 group = u32(block - i * t.groups);
  int column = i < t.parts ? t.part[i].column : i - t.parts + t.divided;
  return {findJob(a, uint3{0, group, 0}), column};
}
/// Returns which of `count` items along the columns block number `block` has. A
/// step has `each` of them.
template <class Args>
MOE_DEVICE Range rangeOf(const Args &a, int block, int count, int each) {
  const TailArgs &t = a.tail;
  int i = block / t.groups;
  return i < t.parts
             ? Range{t.part[i].begin * each, min(t.part[i].end * each, count)}
             : Range{0, count};
}
/// Returns the parts of the tile of a block that isPart().
MOE_DEVICE PartSums partsOf(const TailArgs &t, int block) {
  int i = block / t.groups, group = block - i * t.groups;
  const TailPart &p = t.part[i];
  return {p.first * t.groups + group, t.groups, p.count, p.number};
}
#else
MOE_DEVICE bool isPart(const TailArgs &t, int block) {
  return block < t.divided * t.groups * t.parts;
}
/// Returns what block number `block` along x multiplies, or (MOE_TAIL 2) whose
/// sums it adds.
template <class Args> MOE_DEVICE Tile findTile(const Args &a, int block) {
  const TailArgs &t = a.tail;
  int tile = block;
#if MOE_TAIL == 1
  int divided = t.divided * t.groups, after = block - divided * t.parts;
  tile = after < 0 ? block / t.parts : divided + after;
#endif
  int column = tile / t.groups;
  return {findJob(a, uint3{0, u32(tile - column * t.groups), 0}), column};
}
template <class Args>
MOE_DEVICE Range rangeOf(const Args &a, int block, int count, int each) {
  const TailArgs &t = a.tail;
  if (!isPart(t, block))
    return {0, count};
  int steps = (count + each - 1) / each, part = block % t.parts;
  return {steps * part / t.parts * each,
          min(steps * (part + 1) / t.parts * each, count)};
}
MOE_DEVICE PartSums partsOf(const TailArgs &t, int block) {
#if MOE_TAIL == 1
  return {block, 1, t.parts, 0};
#else
  return {block * t.parts, 1, t.parts, 0};
#endif
}
#endif

/// The memory of part number `i` for a thread's sums of tile `tile` of eight
/// rows. Its layout is [number of the part][Tiles][vectors of Sums][Threads].
template <class Sums, int Tiles, int Threads>
MOE_DEVICE float4 *sumsOf(const TailArgs &t, const PartSums &parts, int i,
                          int tile, int tid) {
  constexpr int kVectors = sizeof(Sums) / 16;
  return (float4 *)t.sums +
         (i64(parts.first + i * parts.apart) * Tiles + tile) * kVectors *
             Threads +
         tid;
}
/// Stores a thread's sums of a tile of eight rows.
template <int Threads, class Sums>
MOE_DEVICE void storeSums(float4 *to, const Sums &sums) {
  const float *x = (const float *)&sums;
#pragma unroll
  for (int i = 0; i < int(sizeof(Sums) / 16); ++i)
    to[i * Threads] =
        make_float4(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]);
}
/// Adds what storeSums() has stored.
template <int Threads, class Sums>
MOE_DEVICE void addSums(Sums &sums, const float4 *from) {
  constexpr int kVectors = sizeof(Sums) / 16;
  float *to = (float *)&sums;
  float4 x[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i)
    x[i] = from[i * Threads];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    to[4 * i] += x[i].x;
    to[4 * i + 1] += x[i].y;
    to[4 * i + 2] += x[i].z;
    to[4 * i + 3] += x[i].w;
  }
}

#if MOE_TAIL == 3
/// Adds the sums of a tile's other parts to those of the block, one tile of
/// eight rows after the other. The sums take most registers, and so the others
/// are copied to shared memory in the background, each thread its own.
template <class Sums, int Tiles, int Threads, int Bytes> class OtherParts {
public:
  static constexpr int kVectors = sizeof(Sums) / 16,
                       kTileBytes = kVectors * Threads * 16;
  /// How many tiles' sums are copied at a time. A word of the `Bytes` of shared
  /// memory is behind them.
  static constexpr int kStages = 2 * kTileBytes + 16 <= Bytes ? 2 : 1,
                       kCopied = kStages * kTileBytes;
  static_assert(kCopied + 16 <= Bytes);
  static __device__ __forceinline__ u32 &wordOf(void *memory) {
    return *(u32 *)((u8 *)memory + kCopied);
  }

  /// `memory` is shared memory that no warp needs any more.
  __device__ __forceinline__ OtherParts(const TailArgs &t,
                                        const PartSums &parts, void *memory,
                                        int tid)
      : t(t), parts(parts), memory((float4 *)memory + tid), tid(tid) {
    skipOwn();
    for (int i = 0; i < kStages; ++i)
      copyNext();
  }
  /// Adds all parts' sums of the next tile to `sums`, in the order of parts.
  __device__ __forceinline__ void addTo(Sums &sums) {
    if (parts.own > 0) {
      Sums before = {};
#pragma unroll 1
      for (int i = 0; i < parts.own; ++i)
        addNext(before);
      const float *x = (const float *)&before;
      float *to = (float *)&sums;
#pragma unroll
      for (int i = 0; i < int(sizeof(Sums) / 4); ++i)
        to[i] = x[i] + to[i];
    }
#pragma unroll 1
    for (int i = parts.own + 1; i < parts.count; ++i)
      addNext(sums);
  }

private:
  __device__ __forceinline__ float4 *stageOf(int number) {
    return memory + number % kStages * kVectors * Threads;
  }
  __device__ __forceinline__ void skipOwn() { part += part == parts.own; }
  __device__ __forceinline__ void copyNext() {
    if (tile < Tiles) {
      const float4 *from =
          sumsOf<Sums, Tiles, Threads>(t, parts, part, tile, tid);
      u32 to = sharedAddress(stageOf(copied));
#pragma unroll
      for (int i = 0; i < kVectors; ++i)
        copyAsync(to + i * Threads * 16, from + i * Threads);
      ++part;
      skipOwn();
      if (part >= parts.count) {
        part = 0;
        ++tile;
        skipOwn();
      }
    }
    ++copied;
    commitCopies();
  }
  __device__ __forceinline__ void addNext(Sums &sums) {
    waitCopies<kStages - 1>();
    addSums<Threads>(sums, stageOf(copied));
    copyNext();
  }

  const TailArgs &t;
  const PartSums &parts;
  float4 *const memory;
  const int tid;
  int part = 0, copied = 0;
  /// Index of the tile that is copied next.
  int tile = parts.count > 1 ? 0 : Tiles;
};
/// Returns whether the block adds the sums of its tile's parts, because it ends
/// last of these. Calls store() for its own sums unless nobody else needs them.
/// All threads must call it; `word` is shared memory that nothing else uses.
template <class Store>
MOE_DEVICE bool takesTile(const TailArgs &t, int block, const PartSums &parts,
                          u32 &word, Store store) {
  int i = block / t.groups, group = block - i * t.groups;
  u32 *ticket = t.tickets + t.part[i].column * t.groups + group;
  if (isOnlyOneLeft(ticket, u32(parts.count), word))
    return true;
  store();
  return isLast(ticket, u32(parts.count), word);
}
#endif
#else
template <class Args> MOE_DEVICE Tile findTile(const Args &a, int block) {
  return {findGroup(a), block};
}
template <class Args>
MOE_DEVICE Range rangeOf(const Args &, int, int count, int) {
  return {0, count};
}
#endif

#endif // MOE_KERNELS_CUDA_TAIL_CUH
