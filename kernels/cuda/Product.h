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
#include <cstddef>

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
  int64_t maxRows = 1; ///< The most tokens, or slots if there are experts.
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
  /// Numbers of tiles along weight rows and activation rows.
  int64_t columns, groups;
  int64_t cols;     ///< Columns that the product adds over.
  int64_t stepCols; ///< Parts begin at multiples of this number of columns.
  int64_t resident; ///< Resident blocks of a multiprocessor.
  int64_t sumBytes; ///< Bytes of a tile's sums.

  int64_t all() const { return columns * groups; }
  int64_t steps() const { return (cols + stepCols - 1) / stepCols; }
};
/// How they are divided (Tail.cuh): the tiles of the first `columns` tile
/// columns, which have `parts` parts together. None is if `columns` is 0.
struct Tail {
  int64_t columns = 0, parts = 0;
  /// The parts in the order of blocks, where the block of a tile that ends last
  /// adds. Empty where a second launch does, for which tile columns have equal
  /// parts.
  std::vector<TailPart> inPlace;

  bool isDivided() const { return columns > 0; }
};
/// Returns how to divide tiles for the least time, from shapes alone.
Tail tailOf(const Tiles &tiles, const LaunchContext &context);
/// Returns the parts of `columns` tile columns of `steps` steps each, the
/// longest first, where the tile columns, one behind the other, are cut into
/// `shares` shares of the same length.
std::vector<TailPart> partsOf(int64_t columns, int64_t steps, int64_t shares);
/// Bytes of workspace for the sums of all parts.
int64_t tailBytes(const Tail &tail, const Tiles &tiles);

/// The counters of a step, whose address may not be known yet.
inline u32 *ticketsOf(const Step *step) {
  return reinterpret_cast<u32 *>(reinterpret_cast<uintptr_t>(step) +
                                 offsetof(Step, tickets));
}
/// Returns the launches of a product with a divided `tail`, made of the
/// `launch` for all tiles. The first one multiplies; parts' sums are in the
/// workspace at `sums`. The second one, if any, adds them, with `pieces` blocks
/// for a tile.
template <class ArgsWithTail, class Args>
std::vector<Launch> tailLaunches(const Launch &launch, const Tail &tail,
                                 const Tiles &tiles, int64_t pieces,
                                 std::byte *sums) {
  ArgsWithTail args{};
  std::memcpy(static_cast<Args *>(&args), launch.args.data(), sizeof(Args));
  TailArgs &t = args.tail;
  t.sums = reinterpret_cast<float *>(sums);
  t.groups = int(tiles.groups);
  t.divided = int(tail.columns);
  const bool isInPlace = !tail.inPlace.empty();
  t.parts = int(isInPlace ? tail.parts : tail.parts / tail.columns);
  t.tickets = isInPlace ? ticketsOf(args.step) : nullptr;
  std::ranges::copy(tail.inPlace, t.part);
  auto with = [&](const char *name, int64_t number,
                  std::initializer_list<uint32_t> grid, uint32_t shared) {
    KernelSpec spec = launch.kernel;
    spec.entry += name;
    spec.define("MOE_TAIL", number);
    return makeLaunch(std::move(spec), grid, launch.threads, shared, args);
  };
  const int64_t whole = tiles.columns - tail.columns;
  const auto blocks = uint32_t((tail.parts + whole) * tiles.groups);
  if (isInPlace)
    return {with("_tail_here", 3, {blocks}, launch.sharedBytes)};
  const auto divided = uint32_t(tail.columns * tiles.groups);
  return {with("_tail", 1, {blocks}, launch.sharedBytes),
          with("_tail_sums", 2, {divided, uint32_t(pieces)}, 0)};
}

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_PRODUCT_H
