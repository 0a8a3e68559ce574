//===- Product.h - What a launch of a matrix product needs ------*- C++ -*-===//
//
// For LaunchGemm.cpp and LaunchHalfGemm.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_PRODUCT_H
#define MOE_KERNELS_CUDA_PRODUCT_H

#include "kernels/cuda/FloatGemmCycles.h"
#include "kernels/cuda/LaunchGemm.h"

#include <algorithm>

namespace moek::cuda {

/// How rows of activations are assigned to matrices; the numbers are those of
/// Jobs.cuh.
enum class Jobs { Tokens = 0, Heads = 1, Experts = 2 };

/// A product of any of the five ops.
struct Product {
  Jobs jobs = Jobs::Tokens;
  GemmArgs args{};
  Format format = Format::F32, upFormat = Format::F32;
  bool isGate = false;
  int64_t heads = 1;
  int64_t maxRows = 1; ///< Tokens, or slots if there are experts.
  int64_t sharers = 1; ///< Experts that the slots are distributed to.
  Activation activation = Activation::Silu; ///< Used if isGate.
};

Product productOf(OpCode op, const void *args, const LaunchContext &context);

/// Returns the source file and the definitions for a product; `rows` is the
/// number of rows per block.
KernelSpec productSpec(const Product &p, const char *file, const char *name,
                       int64_t rows);

/// Returns the mean number of rows per matrix.
inline int64_t rowsPerMatrix(const Product &p) {
  return p.jobs == Jobs::Experts ? blocksFor(p.maxRows, p.sharers) : p.maxRows;
}

/// Returns the rows of activations of a block: 16, 32, .. `most`. It needs no
/// more than a matrix has. Some experts have more than the mean; those that
/// have fewer leave tiles of eight rows out.
inline int64_t blockRowsOf(const Product &p, int64_t most) {
  int64_t rows = 16, wanted = rowsPerMatrix(p);
  if (p.jobs == Jobs::Experts)
    wanted += wanted / 4;
  while (rows < most && rows < wanted)
    rows *= 2;
  return rows;
}

/// Returns the number of groups of `rows` rows in prefill (Groups.cuh).
inline uint32_t prefillGroups(const Product &p, int64_t rows) {
  int64_t groups = (p.maxRows + rows - 1) / rows;
  // Each expert's last group may be short.
  if (p.jobs == Jobs::Experts)
    groups += std::min<int64_t>(p.args.experts, p.maxRows);
  return uint32_t(groups);
}

/// Whether HalfGemm.cu multiplies it: F32, F16 or BF16 in the layout of files,
/// not streamed, or panels on some GPUs; more than a few rows.
bool isHalfGemm(const Product &p, const LaunchContext &context);
/// The launches of such a product. The first one narrows the activations (to
/// narrowBytes() of workspace) for all that follow.
std::vector<Launch> halfGemm(const Product &p, const LaunchContext &context);
int64_t narrowBytes(const Product &p, const LaunchContext &context);
/// The whole workspace of such a product: narrowed activations, and the sums of
/// divided tiles.
int64_t halfGemmBytes(const Product &p, const LaunchContext &context);

/// The tiles of a product; a block multiplies one.
struct Tiles {
  int64_t columns, groups; ///< Numbers along weight rows and activations.
  int64_t cols;            ///< Columns that the product adds over.
  int64_t resident;        ///< Blocks of a multiprocessor.
  int64_t sumBytes;        ///< Bytes of a tile's sums.
};
/// How they are divided (Tail.cuh): each of the first `tiles` into `parts`
/// parts by columns; `whole` tiles follow. With parts 1 none is divided.
struct Tail {
  int64_t whole = 0, tiles = 0, parts = 1;
};
/// Returns how to divide as many tiles as the last wave would have, if that is
/// worth it, from shapes alone.
Tail tailOf(const Tiles &tiles, const LaunchContext &context);
/// Bytes of workspace for the sums of all parts.
int64_t tailBytes(const Tail &tail, const Tiles &tiles);

/// Returns the two launches of a product with a divided `tail`, made of the
/// `launch` for all tiles: one multiplies, and one adds the parts' sums, which
/// are in the workspace at `sums`, with `pieces` blocks for a tile.
template <class ArgsWithTail, class Args>
std::vector<Launch> tailLaunches(const Launch &launch, const Tail &tail,
                                 const Tiles &tiles, int64_t pieces,
                                 std::byte *sums) {
  ArgsWithTail args{};
  std::memcpy(static_cast<Args *>(&args), launch.args.data(), sizeof(Args));
  args.tail = {reinterpret_cast<float *>(sums), int(tiles.groups),
               int(tail.tiles), int(tail.parts)};
  auto with = [&](const char *name, int64_t number,
                  std::initializer_list<uint32_t> grid, uint32_t shared) {
    KernelSpec spec = launch.kernel;
    spec.entry += name;
    spec.define("MOE_TAIL", number);
    return makeLaunch(std::move(spec), grid, launch.threads, shared, args);
  };
  return {with("_tail", 1, {uint32_t(tail.whole + tail.tiles * tail.parts)},
               launch.sharedBytes),
          with("_tail_sums", 2, {uint32_t(tail.tiles), uint32_t(pieces)}, 0)};
}

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_PRODUCT_H
