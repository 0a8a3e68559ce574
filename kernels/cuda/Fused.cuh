//===- Fused.cuh - Several kernels in one launch ----------------*- C++ -*-===//
//
// What the source of a fused kernel, which FusedSource.cpp writes, calls.
// Blocks of the launch are numbered through all pieces that begin. The block
// that ends last of a tile, or of all, goes on with what follows: no block
// waits for another.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_FUSED_CUH
#define MOE_KERNELS_CUDA_FUSED_CUH

#include "kernels/cuda/Abi.h"
#include "kernels/cuda/LaunchOrder.cuh"
#include "kernels/cuda/Tickets.cuh"

#define MOE_FUSED static __device__ __forceinline__

namespace fused {
using namespace moek::cuda;

MOE_FUSED u32 lane() { return threadIdx.x % 32; }
MOE_FUSED u32 warp() { return threadIdx.x / 32; }
MOE_FUSED u32 warps() { return blockDim.x / 32; }

MOE_FUSED constexpr int larger(int a, int b) { return a > b ? a : b; }
MOE_FUSED constexpr int smaller(int a, int b) { return a < b ? a : b; }

MOE_FUSED uint3 gridOf(const PieceShape &p) {
  return {p.grid[0], p.grid[1], p.grid[2]};
}
MOE_FUSED u32 countOf(const PieceShape &p) {
  return p.grid[0] * p.grid[1] * p.grid[2];
}
/// Returns n / d for `inverse` = (2^32 - 1) / d, exactly if (n + 1) * d is at
/// most 2^32. With r the remainder of that division, (n + 1) * inverse / 2^32
/// is (n + 1) / d less (n + 1) (r + 1) / (d 2^32). That is more than 0 and at
/// most 1 / d, so that the integer part is that of n / d. It takes two
/// instructions; a division takes twenty, before anything else of the block can
/// begin.
MOE_FUSED u32 divide(u32 n, u32 inverse) {
  return u32((u64(n) * inverse + inverse) >> 32);
}
/// The index of the piece's block number `i`; x varies fastest.
MOE_FUSED uint3 at(const PieceShape &p, u32 i) {
  u32 row = divide(i, p.inverse[0]), z = divide(row, p.inverse[1]);
  return {i - row * p.grid[0], row - z * p.grid[1], z};
}

/// Calls isLast() with shared memory of its own.
MOE_FUSED bool isLastBlock(u32 *ticket, u32 count) {
  __shared__ u32 word;
  return isLast(ticket, count, word);
}

constexpr u32 kEveryLane = 0xffffffffu;

MOE_FUSED u64 nanoseconds() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// Waits until the host has set a flag. If the step was abandoned, or the flag
/// does not come, it has no tokens from then on, for this launch and all that
/// follow.
MOE_FUSED void await(const FusedArgs &f) {
  if (!f.hostSync.awaited)
    return;
  // A whole warp, which comes to the barrier together.
  if (warp() == 0) {
    u32 flag;
    u64 begin = nanoseconds();
    bool isLate = false;
    do {
      asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
                   : "=r"(flag)
                   : "l"(f.hostSync.awaited)
                   : "memory");
      isLate = nanoseconds() - begin > f.hostSync.patience;
    } while (!__all_sync(kEveryLane, flag != 0) &&
             !__any_sync(kEveryLane, isLate));
    isLate = !__all_sync(kEveryLane, flag != 0);
    u64 head;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];"
                 : "=l"(head)
                 : "l"(f.hostSync.head)
                 : "memory");
    if (isLate) {
      head = 0;
      asm volatile("st.relaxed.sys.global.u32 [%0], 1;" ::"l"(f.hostSync.late)
                   : "memory");
    }
    if (lane() == 0) {
      f.step->tokens = int(head);
      f.step->sequences = int(head >> 32);
    }
  }
  __syncthreads();
}

/// Asks L2 for the weights that later launches read; nothing waits for them. A
/// lane asks for a sector of 32 bytes: PTX does not say how much of a line
/// beyond that a prefetch brings.
MOE_FUSED void prefetch(const FusedArgs &f) {
  constexpr u64 kSector = 32;
  u64 own = (u64(blockIdx.x) * blockDim.x + threadIdx.x) * kSector;
  u64 all = u64(gridDim.x) * blockDim.x * kSector;
  for (const Prefetch &p : f.prefetch)
    for (u64 at = own; at < p.bytes; at += all)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(p.begin + at));
}

/// Sets the host's flag. Called by the block that ends last, after a barrier,
/// so that the host sees everything that the launch wrote once it sees the
/// flag.
MOE_FUSED void signalHost(const FusedArgs &f) {
  if (f.hostSync.signalled && threadIdx.x == 0)
    asm volatile(
        "st.release.sys.global.u32 [%0], 1;" ::"l"(f.hostSync.signalled)
        : "memory");
}

/// A tile of a product: the columns that some neighbouring blocks compute, for
/// all rows. Blocks are neighbours along x, then along z (heads); `blocks` is
/// the number of blocks along all axes that compute the tile.
struct Tile {
  u32 number, blocks;
};
/// Returns the tile that block number `block` of `product` belongs to, with the
/// size of tiles that `piece` follows.
MOE_FUSED Tile tileOf(const PieceShape &product, const PieceShape &piece,
                      u32 block) {
  uint3 b = at(product, block);
  u32 all = product.grid[0] * product.grid[2], side = piece.tileBlocks;
  u32 number = divide(b.z * product.grid[0] + b.x, piece.inverse[2]);
  return {number, min(side, all - number * side) * product.grid[1]};
}
/// Returns how many blocks of piece `p` belong to `tile`: p.perTile along
/// `axis` (0: x, 1: y) and all along the other axes; none if the tile is beyond
/// the grid.
MOE_FUSED u32 countOf(const PieceShape &p, Tile tile, int axis) {
  return tile.number * p.perTile < p.grid[axis]
             ? p.perTile * p.grid[1 - axis] * p.grid[2]
             : 0;
}
/// Returns the index of the `i`-th of these blocks.
MOE_FUSED uint3 at(const PieceShape &p, Tile tile, int axis, u32 i) {
  u32 rest = divide(i, p.inverse[3]);
  u32 own = tile.number * p.perTile + i - rest * p.perTile;
  u32 z = divide(rest, p.inverse[1 - axis]);
  u32 other = rest - z * p.grid[1 - axis];
  return axis == 0 ? uint3{own, other, z} : uint3{other, own, z};
}

} // namespace fused

/// Executes block `index` of piece number `i`, whose kernel is file::piece(),
/// with as many threads of the calling block as the piece has.
#define MOE_AS_BLOCK(i, file, index)                                           \
  if (threadIdx.x < f.shape.shape[i].threads)                                  \
    file::piece(f.a##i, uint3{threadIdx.x, 0, 0}, index,                       \
                uint3{f.shape.shape[i].threads, 1, 1},                         \
                fused::gridOf(f.shape.shape[i]));
/// Defines a piece whose blocks are single warps: the calling warp executes it.
#define MOE_AS_WARP(i, file, index)                                            \
  file::piece(f.a##i, uint3{fused::lane(), 0, 0}, index, uint3{32, 1, 1},      \
              fused::gridOf(f.shape.shape[i]));

#endif // MOE_KERNELS_CUDA_FUSED_CUH
