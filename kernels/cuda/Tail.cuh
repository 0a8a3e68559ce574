//===- Tail.cuh - Tiles that are divided by columns -------------*- C++ -*-===//
//
// A product of a few more tiles than a GPU has room for blocks would keep most
// multiprocessors idle in the last wave. So as many tiles as that wave would
// have are divided by columns: several blocks (MOE_TAIL 1) multiply a part of
// the columns of a tile each, and store their sums; a second launch (MOE_TAIL
// 2) adds those of each tile in the order of columns. The blocks of divided
// tiles come first, so that memory takes their sums while whole tiles are
// multiplied. The host chooses how many tiles, and parts of each, from shapes
// alone: results do not depend on which block ends first, nor those of a row on
// the other rows of the step, because tiles are numbered along the groups of
// rows first.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_TAIL_CUH
#define MOE_KERNELS_CUDA_TAIL_CUH

#include "kernels/cuda/Groups.cuh"

/// What a block multiplies: the weight rows of tile column `column` with the
/// rows of `job`. If `part` is not negative, it is the number of the part of
/// the columns that the block has; otherwise it has all.
struct Tile {
  Job job;
  int column, part;
};
/// Steps `begin` .. `end` - 1 along the columns.
struct Range {
  int begin, end;
};

#ifdef MOE_TAIL
/// Returns what block number `block` along x multiplies, or (MOE_TAIL 2) whose
/// sums it adds.
template <class Args> MOE_DEVICE Tile findTile(const Args &a, int block) {
  const TailArgs &t = a.tail;
#if MOE_TAIL == 1
  int after = block - t.divided * t.parts;
  int tile = after < 0 ? block / t.parts : t.divided + after;
  int part = after < 0 ? block % t.parts : -1;
#else
  int tile = block, part = -1;
#endif
  int column = tile / t.groups;
  return {findJob(a, uint3{0, u32(tile - column * t.groups), 0}), column, part};
}
/// Returns which of `count` steps along the columns the block has. A part
/// begins at a multiple of `each`.
template <class Args>
MOE_DEVICE Range rangeOf(const Args &a, const Tile &tile, int count, int each) {
  if (tile.part < 0)
    return {0, count};
  int steps = (count + each - 1) / each, parts = a.tail.parts;
  return {steps * tile.part / parts * each,
          min(steps * (tile.part + 1) / parts * each, count)};
}
#else
template <class Args> MOE_DEVICE Tile findTile(const Args &a, int block) {
  return {findGroup(a), block, -1};
}
template <class Args>
MOE_DEVICE Range rangeOf(const Args &, const Tile &, int count, int) {
  return {0, count};
}
#endif

#endif // MOE_KERNELS_CUDA_TAIL_CUH
