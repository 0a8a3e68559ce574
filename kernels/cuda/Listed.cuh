//===- Listed.cuh - The rows that SparseAttention reads ---------*- C++ -*-===//
//
// Also those of BlockAttention, for which MOE_BLOCKS is defined: its entries
// are the positions of chosen blocks, in the same cache, and each of its KV
// heads has columns of its own.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_LISTED_CUH
#define MOE_KERNELS_CUDA_LISTED_CUH

#include "kernels/cuda/Spans.cuh"

/// A token's list: `rows` positions from `begin` on, then `entries` entries. Of
/// these the first `chosen` are chosen ones; in SparseAttention the others are
/// the entries from number `tail` on. A KV split has `length` items of the
/// list, the last one the rest.
struct Listed {
  int begin, rows, entries, length, chosen, tail;
  __device__ int count() const { return rows + entries; }
  __device__ void split(int splits) {
    length = (count() + splits - 1) / splits;
    length = (length + 31) / 32 * 32; // Rounded up to the rows of a block.
  }
};

/// Some of the query heads that read the same rows: `count` of them from number
/// `first` on. Their keys and values begin at columns `key` and `value` of a
/// row; `chosen` is the list of chosen entries or blocks, or null.
struct ListedHeads {
  int first, count, key, value;
  const int *chosen;
};

#ifdef MOE_BLOCKS
using ListedArgs = BlockSplitsArgs;

MOE_DEVICE Listed listedFor(const ListedArgs &a, int position) {
  int blocks = entriesSeen(position, a.ratio, a.local);
  int begin = blocks * a.ratio;
  int chosen = min(blocks, a.topK) * a.ratio;
  Listed list = {begin, position + 1 - begin, chosen, 0, chosen, 0};
  list.split(a.splits);
  return list;
}

/// Returns the `i`-th group of at most `most` heads of a token; a group's heads
/// share a KV head.
MOE_DEVICE ListedHeads listedHeads(const ListedArgs &a, int t, int i,
                                   int most) {
  int group = a.heads / a.kvHeads, parts = (group + most - 1) / most;
  int kvHead = i / parts, from = i % parts * most;
  int own = a.groups == 1 ? 0 : kvHead;
  int key = kvBlocks(a.key) * kKvBlock, value = kvBlocks(a.value) * kKvBlock;
  return {kvHead * group + from, min(group - from, most), kvHead * key,
          a.kvHeads * key + kvHead * value,
          a.chosen + (i64(t) * a.groups + own) * a.topK};
}

/// Returns the cache row of the list's item `i`.
MOE_DEVICE i64 listedRow(const ListedArgs &a, const Listed &list,
                         const int *chosen, const Place &place, int i) {
  if (i < list.rows)
    return cacheRow(place.pages, list.begin + i);
  i -= list.rows;
  return cacheRow(place.pages, chosen[i / a.ratio] * a.ratio + i % a.ratio);
}

MOE_DEVICE const Kv &entriesOf(const ListedArgs &a) { return a.kv; }
MOE_DEVICE const float *sinksOf(const ListedArgs &) { return nullptr; }
#else
using ListedArgs = SparseSplitsArgs;

MOE_DEVICE Listed listedFor(const ListedArgs &a, int position) {
  Listed list = {firstVisible(position, a.window), 0, 0, 0, 0, 0};
  if (a.window > 0)
    list.rows = position + 1 - list.begin;
  list.entries = entriesSeen(position, a.ratio, 0);
  if (a.chosen) {
    int blocks = list.entries / a.pool;
    list.chosen = min(blocks, a.topK) * a.pool;
    list.tail = blocks * a.pool;
    list.entries += list.chosen - list.tail;
  }
  list.split(a.splits);
  return list;
}

MOE_DEVICE ListedHeads listedHeads(const ListedArgs &a, int t, int i,
                                   int most) {
  return {i * most, min(a.heads - i * most, most), 0, 0,
          a.chosen ? a.chosen + i64(t) * a.topK : nullptr};
}

/// Returns the `i`-th of the list's entries.
MOE_DEVICE int listedEntry(const ListedArgs &a, const Listed &list,
                           const int *chosen, int i) {
  return i < list.chosen ? chosen[i / a.pool] * a.pool + i % a.pool
                         : i + list.tail - list.chosen;
}

/// Returns the row of the list's item `i`: in the cache of positions if i <
/// list.rows, otherwise in that of entries.
MOE_DEVICE i64 listedRow(const ListedArgs &a, const Listed &list,
                         const int *chosen, const Place &place, int i) {
  if (i < list.rows)
    return cacheRow(place.pages, place.state, a.ring, list.begin + i);
  int entry = listedEntry(a, list, chosen, i - list.rows);
  return cacheRow(place.pages, (entry + 1) * a.ratio - 1);
}

MOE_DEVICE const Kv &entriesOf(const ListedArgs &a) { return a.entries; }
MOE_DEVICE const float *sinksOf(const ListedArgs &a) { return a.sinks; }
#endif

#endif // MOE_KERNELS_CUDA_LISTED_CUH
