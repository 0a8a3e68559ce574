//===- Fusion.h - How a kernel can be part of a fused launch ----*- C++ -*-===//
//
// Launch*.cpp states these traits where it launches a kernel; Fuse.h uses them.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_FUSION_H
#define MOE_KERNELS_CUDA_FUSION_H

#include "kernels/cuda/KernelSpec.h"

namespace moek::cuda {

struct Fusion {
  /// Empty: it is never fused. A kernel of kind Wide needs many blocks and can
  /// only begin. A kernel of kind Warps has no barrier of a block, so that its
  /// blocks can be cut into warps.
  std::optional<PieceSpec::Kind> kind = {};
  bool anyThreads = false;   ///< Blocks may have any number of whole warps.
  bool sharedByWarp = false; ///< Dynamic shared memory grows with the warps.
  int productColumns = 0;    ///< For a product: result columns per block.
  /// For attention with KV splits: how many query heads the blocks with the
  /// same blockIdx.z compute, which are those of a KV head.
  int64_t splitHeads = 0;
  bool choosesExperts = false; ///< Whether RouterWatch reads the output.

  // The rest is for kernels of kind Warps, which may follow tiles of a product.
  /// Number of columns that the product must have.
  int64_t followedColumns = 0;
  /// Columns of a tile; 0: the kernel follows no tiles.
  int64_t tileColumns = 0;
  /// For a kernel that combines KV splits: its number of query heads. Fused
  /// behind attention, it begins with a KV head as soon as that is complete.
  /// 0: it does not follow attention.
  int64_t combinedHeads = 0;
  int axis = 0; ///< The grid's axis that is cut into warps and tiles.
  /// Whether it may follow a product whose result it updates.
  bool isInPlace = false;

  static constexpr Fusion wide(int productColumns = 0, bool anyThreads = false,
                               bool sharedByWarp = false) {
    return {.kind = PieceSpec::Kind::Wide,
            .anyThreads = anyThreads,
            .sharedByWarp = sharedByWarp,
            .productColumns = productColumns};
  }
  /// Attention with KV splits: the blocks with the same z compute `heads` query
  /// heads, each block one split of them.
  static constexpr Fusion splitAttention(int64_t heads) {
    return {.kind = PieceSpec::Kind::Wide, .splitHeads = heads};
  }
  /// A kernel whose blocks need the number of threads that it is launched with.
  static constexpr Fusion fixedBlocks() {
    return {.kind = PieceSpec::Kind::Blocks};
  }
  static constexpr Fusion blocks() {
    return {.kind = PieceSpec::Kind::Blocks, .anyThreads = true};
  }
  static constexpr Fusion warps() {
    return {.kind = PieceSpec::Kind::Warps, .anyThreads = true};
  }
  /// A kernel that may follow a product of `columns` columns, tile by tile.
  static constexpr Fusion warpsOfTiles(int64_t columns, int64_t tile) {
    return {.kind = PieceSpec::Kind::Warps,
            .anyThreads = true,
            .followedColumns = columns,
            .tileColumns = tile};
  }
  /// A kernel that combines KV splits, a head in each warp along y.
  static constexpr Fusion warpsOfHeads(int64_t heads) {
    return {.kind = PieceSpec::Kind::Warps,
            .anyThreads = true,
            .combinedHeads = heads,
            .axis = 1};
  }
};

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_FUSION_H
