//===- LaunchHalfGemm.cpp - Launches of products of 16-bit floats ---------===//

#include "kernels/cuda/Product.h"
#include "kernels/quant/Blocks.h"
#include "kernels/quant/Rows16.h"

#include <cmath>
#include <tuple>

namespace moek::cuda {

namespace {
/// Whether weights are packed, and HalfPanels.cuh unpacks them.
bool isPanels(const Product &p) {
  return formatInfo(p.format).blockElements > 1;
}

/// Bytes of a row's scales and minima for 32 columns in HalfPanels.cuh, where
/// each is an F16 number, twice. 0 for a format that it does not unpack: one
/// whose columns share shifts (IQ1).
template <class Block> constexpr int64_t scaleBytesOf() {
  if constexpr (requires { Block::kScales; }) {
    using Traits = BlockTraits<Block>;
    return Traits::kShiftCols
               ? 0
               : 4 * (32 / Traits::kSub) * (Traits::kOffsetSub ? 2 : 1);
  } else {
    return 0;
  }
}
int64_t scaleBytes(Format format) {
  switch (format) {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  case Format::name:                                                           \
    return scaleBytesOf<Block##name>();
#include "kernels/quant/Formats.def"
  default:
    return 0;
  }
}

/// Columns of a unit; rows of activations have whole units.
constexpr int64_t kUnitCols = 32;
constexpr int64_t kTileCols = 64; ///< Columns of a tile of HalfTiles.cuh.
/// 16-bit numbers that stand for a float where weights are F32.
constexpr int64_t kFloatParts = 3;

bool isAligned(const Matrix &w) {
  return (reinterpret_cast<uintptr_t>(w.data) | uint64_t(w.rowStride) |
          uint64_t(w.outerStride)) %
             16 ==
         0;
}

/// Returns how many 16-bit numbers stand for an activation (HalfGemm.cu).
/// Matrices of at most kRouterRows rows count as routers and gates; the largest
/// router has 512 experts.
int64_t partsOf(const Product &p) {
  constexpr int64_t kRouterRows = 512;
  return p.format == Format::F32                  ? kFloatParts
         : isPanels(p)                            ? 1
         : p.args.w.rows * p.heads <= kRouterRows ? 2
                                                  : 1;
}

int64_t pitchOf(const Product &p) {
  return (p.args.w.cols + kUnitCols - 1) / kUnitCols * kUnitCols;
}

/// Rows of activations that a token has.
int64_t rowsPerToken(const Product &p) {
  return p.jobs == Jobs::Heads                            ? p.heads
         : p.jobs == Jobs::Experts && !p.args.actPerToken ? p.args.topK
                                                          : 1;
}

int64_t narrowRows(const Product &p, const LaunchContext &context) {
  return context.maxTokens * rowsPerToken(p);
}

/// How a block of HalfGemm.cu divides its work.
struct Shape {
  int64_t acts, warpRows, warpCols, tiles, slices, stages, blocks;
  bool isGate;
  int64_t ahead = 0, stepCols = 32;
  bool hasWarpgroups = false;
  int64_t cluster = 0; ///< Blocks that share activations; 0: none.

  /// With `up`, rows of both matrices.
  int64_t weightRows() const { return 16 * tiles * warpRows; }
  int64_t matrixRows() const { return weightRows() / (isGate ? 2 : 1); }
  uint32_t threads() const {
    return uint32_t(32 * warpRows * warpCols * slices);
  }
  /// Bytes of a stage of all slices.
  int64_t stageBytes(const Product &p) const {
    int64_t unit =
        isPanels(p) ? 4 * rows16Shape(p.format).codeBits + scaleBytes(p.format)
                    : kUnitCols * (p.format == Format::F32 ? 4 : 2);
    return slices * stepCols / kUnitCols *
           (weightRows() * unit + acts * kUnitCols * 2 * partsOf(p));
  }
};

int64_t blocksOf(const Product &p, const Shape &shape) {
  return int64_t(blocksFor(p.args.w.rows, shape.matrixRows())) *
         blocksFor(p.maxRows, shape.acts) * p.heads;
}

/// Returns the shape of a block with `acts` rows of activations. Its warps have
/// 64 x 32 (rows of weights by activations) for 128 rows, else 32 x 32 or, for
/// fewer than 32 rows, 32 x 16.
Shape shapeFor(int64_t acts, bool isGate) {
  if (acts == 128)
    return {acts, 2, 4, 4, 1, 0, 2, isGate};
  return {acts, 4, acts == 64 ? 2 : 1, 2, 1, 0, 2, isGate};
}

/// Returns how well blocks of a shape use the GPU: the part of the time that
/// multiprocessors are busy, because in the end some have no block, times a
/// factor for smaller blocks, which multiply less for each byte of L2.
double busyPart(const Product &p, const Shape &shape, int multiprocessors) {
  int64_t blocks = blocksOf(p, shape);
  double most = double(blocksFor(blocks, multiprocessors)) * multiprocessors;
  return double(blocks) / most *
         (shape.acts == 128  ? 1
          : shape.acts == 64 ? 0.75
                             : 0.6);
}

/// Shared memory of one of two blocks of a multiprocessor. That has 100 KiB on
/// GeForce GPUs, of which the driver takes 1 KiB for each block, and 164 KiB or
/// more on the others.
int64_t halfOfShared(int arch) {
  return multiprocessorOf(arch).sharedBytes < 128 << 10 ? 49 << 10 : 80 << 10;
}

/// Blocks of panels: warps of 64 x 64, so that few unpack the same weights, two
/// blocks on a multiprocessor, of which one multiplies while the other waits
/// for operands. Fewer rows of activations leave registers for more blocks.
Shape panelShape(const Product &p, const LaunchContext &context) {
  int64_t acts = blockRowsOf(p, 128);
  Shape s{acts, 4, 1, 4, 1, 3, acts > 32 ? 2 : 3, p.isGate};
  if (acts == 128)
    s.warpRows = s.warpCols = 2;
  s.stepCols = 64;
  s.stages = std::clamp<int64_t>(
      2 * halfOfShared(context.arch) / s.blocks / s.stageBytes(p), 2, 4);
  return s;
}

/// Rows of activations of a block of warpgroups, for which a lane has 128 sums.
int64_t groupActs(const Product &p) {
  return blockRowsOf(p, p.isGate ? 64 : 128);
}
bool hasWarpgroups(const Product &p, const LaunchContext &context) {
  return context.arch == kWarpgroupArch && p.format != Format::F32 &&
         partsOf(p) == 1 && groupActs(p) >= 32;
}

/// Blocks of two warpgroups, one on a multiprocessor: 256 rows of weights by
/// 128 of activations, or 512 (of both matrices of a gate) by 64. L2 limits
/// them. Experts have many small tiles, of which the last ones keep few
/// multiprocessors busy: a block has one warpgroup, and a multiprocessor two
/// blocks or more.
Shape warpgroupShape(const Product &p) {
  const bool isSmall = p.jobs == Jobs::Experts;
  const int64_t tiles = p.isGate ? 4 : 2;
  Shape s{groupActs(p), isSmall ? 4 : 8, 1, tiles, 1, 0, 1, p.isGate};
  if (isSmall)
    s.blocks = s.acts * tiles > 128 ? 2 : 3;
  s.hasWarpgroups = true;
  const int64_t most = maxSharedBytes(kWarpgroupArch) / s.blocks - 1024;
  s.stepCols = 64;
  if (most / s.stageBytes(p) < 4)
    s.stepCols = 32;
  s.stages = std::clamp<int64_t>(most / s.stageBytes(p), 4, 6);
  return s;
}

/// Clusters of four blocks along the weight rows, each of which copies a fourth
/// of the activations for all. Then a block of 128 x 256 needs 384 bytes of L2
/// for a column of F16 weights, where one of 256 x 128 alone needs 768.
constexpr int64_t kClusterBlocks = 4;

/// Returns the shape of blocks in clusters, or one without if a product has too
/// few tiles of it. A lane has 128 sums. In the simulation, panels gain
/// nothing: L2 delivers half as much then, but each weight has to be unpacked
/// as before.
Shape clusterShape(const Product &p, const LaunchContext &context) {
  const int64_t tiles = p.isGate ? 2 : 1;
  Shape s{256 / tiles, 8, 1, tiles, 1, 0, 1, p.isGate};
  s.hasWarpgroups = true;
  s.stepCols = 64;
  const int64_t most = maxSharedBytes(kWarpgroupArch) - 1024;
  s.stages = std::min<int64_t>(most / s.stageBytes(p), 6);
  // Multiprocessors that are no whole cluster in their part of the GPU stay
  // free: an H100 has room for 32 clusters of four.
  const int64_t slots =
      (context.multiprocessors / kClusterBlocks - 1) * kClusterBlocks;
  const int64_t columns = blocksFor(p.args.w.rows, s.matrixRows());
  const int64_t groups = blocksFor(p.maxRows, s.acts);
  const double waves =
      double(blocksFor(columns, kClusterBlocks) * kClusterBlocks * groups) /
      double(std::max<int64_t>(slots, 1));
  // Fewer blocks are better divided by columns (Tail.cuh). Rows that fill up
  // the last group cost as much as others.
  constexpr double kLeastBusy = 0.75;
  if (slots > 0 && p.jobs == Jobs::Tokens && !isPanels(p) && s.stages >= 4 &&
      p.args.w.cols >= 64 && 3 * groups * s.acts <= 4 * p.maxRows &&
      waves / std::ceil(waves) >= kLeastBusy)
    s.cluster = kClusterBlocks;
  return s;
}

Tiles tilesOf(const Product &p, const Shape &shape) {
  return {blocksFor(p.args.w.rows, shape.matrixRows()),
          prefillGroups(p, shape.acts),
          p.args.w.cols,
          shape.stepCols,
          shape.blocks,
          shape.weightRows() * shape.acts * 4};
}
/// Returns how a product's last tiles are divided. Heads and experts are not,
/// because their grids have other axes, nor slices, which divide columns
/// already, nor clusters, which have tiles enough. On sm_120, gates have no
/// register left for a part.
Tail tailOf(const Product &p, const Shape &shape,
            const LaunchContext &context) {
  if (p.jobs != Jobs::Tokens || shape.slices > 1 || shape.cluster ||
      (context.arch >= 120 && p.isGate))
    return {};
  return tailOf(tilesOf(p, shape), context);
}

Shape shapeOf(const Product &p, const LaunchContext &context) {
  const bool isGeforce = multiprocessorOf(context.arch).sharedBytes < 128 << 10;
  const int64_t half = halfOfShared(context.arch);
  const int sms = context.multiprocessors;
  int64_t acts = blockRowsOf(p, partsOf(p) == 1 ? 128 : 64);
  Shape s = shapeFor(acts, p.isGate);
  if (p.jobs != Jobs::Experts)
    for (acts /= 2; acts >= 32; acts /= 2) {
      Shape smaller = shapeFor(acts, p.isGate);
      if (busyPart(p, smaller, sms) > busyPart(p, s, sms))
        s = smaller;
    }
  // L2 of data centres' GPUs limits blocks of 128 x 128; warps of 64 x 64 also
  // read less of shared memory.
  if (s.acts == 128 && !isGeforce) {
    Shape large = s;
    large.warpRows = 4, large.warpCols = 2, large.blocks = 1, large.ahead = 1;
    if (busyPart(p, large, sms) > 0.7 * busyPart(p, s, sms))
      s = large;
  }
  // Where there are few blocks, a block has slices. But the tensor cores of a
  // block's multiprocessor bound products of F32, so that these are divided
  // among more multiprocessors instead if they can be.
  bool isDivided = p.format == Format::F32 && tailOf(p, s, context).isDivided();
  if (2 * blocksOf(p, s) < sms && p.jobs != Jobs::Experts && !isDivided)
    s = {std::min<int64_t>(s.acts, 32),   2, 1, 2,
         p.format == Format::F32 ? 2 : 4, 0, 1, p.isGate};
  // Larger steps need fewer barriers, where stages fit.
  if (p.format != Format::F32 && s.slices == 1)
    s.stepCols = 64;
  // For F32 weights, two blocks of two stages are better than one block of
  // three stages.
  const int64_t shared = multiprocessorOf(context.arch).sharedBytes;
  auto fitsTwice = [&](int64_t stages) {
    return 2 * (stages * s.stageBytes(p) + 1024) <= shared;
  };
  const int64_t least =
      p.format == Format::F32 && fitsTwice(2) && !fitsTwice(3) ? 2 : 3;
  s.stages = std::clamp<int64_t>(
      (s.blocks == 1 ? 2 * half : half) / s.stageBytes(p), least, 4);
  return s;
}
} // namespace

bool isHalfGemm(const Product &p, const LaunchContext &context) {
  // In the simulation, gates of MXFP4 experts (gpt-oss: 64 rows each) take a
  // fourth longer in F16 than in int8, whose last rows have smaller tiles.
  bool isSlower = p.format == Format::MXFP4 && p.isGate;
  if (context.form.layout == Layout::Rows16)
    return hasPanelProducts(context.arch) && !isSlower &&
           rowsPerMatrix(p) > kFewRows && scaleBytes(p.format) > 0;
  return halfProducts(p.format, double(rowsPerMatrix(p)), context.arch) > 0 &&
         context.form.layout == Layout::Gguf && context.parts == 0 &&
         p.args.w.cols % 8 == 0 && isAligned(p.args.w) &&
         (!p.isGate || (p.upFormat == p.format && isAligned(p.args.up)));
}

namespace {
/// 16-bit numbers that narrowBytes() has room for, for each activation.
int64_t roomOf(Format format) {
  return format == Format::F32 ? kFloatParts : 2;
}
} // namespace

int64_t narrowBytes(Format format, int64_t rows, int64_t cols) {
  int64_t pitch = (cols + kUnitCols - 1) / kUnitCols * kUnitCols;
  return rows * (2 * pitch * roomOf(format) + 4);
}
int64_t narrowBytes(const Product &p, const LaunchContext &context) {
  return narrowBytes(p.format, narrowRows(p, context), p.args.w.cols);
}

namespace {
Shape anyShape(const Product &p, const LaunchContext &context) {
  if (hasWarpgroups(p, context))
    if (Shape s = clusterShape(p, context); s.cluster)
      return s;
  return hasWarpgroups(p, context) ? warpgroupShape(p)
         : isPanels(p)             ? panelShape(p, context)
                                   : shapeOf(p, context);
}
/// Bytes of the workspace before the sums of divided tiles.
int64_t sumsOffset(const Product &p, const LaunchContext &context) {
  constexpr int64_t kLine = 128;
  return (narrowBytes(p, context) + kLine - 1) / kLine * kLine;
}
} // namespace

int64_t halfGemmBytes(const Product &p, const LaunchContext &context) {
  Shape shape = anyShape(p, context);
  return sumsOffset(p, context) +
         tailBytes(tailOf(p, shape, context), tilesOf(p, shape));
}

std::vector<Launch> halfGemm(const Product &p, const LaunchContext &context) {
  const GemmArgs &g = p.args;
  const Shape shape = anyShape(p, context);
  int64_t rows = narrowRows(p, context), pitch = pitchOf(p), parts = partsOf(p);
  auto memory = reinterpret_cast<uintptr_t>(context.workspace);
  NarrowArgs narrow{};
  narrow.step = g.step;
  narrow.x = g.act;
  narrow.out = reinterpret_cast<u16 *>(memory);
  narrow.scales =
      reinterpret_cast<float *>(memory + 2 * roomOf(p.format) * rows * pitch);
  narrow.pitch = pitch;
  narrow.plane = rows * pitch;
  if (shape.cluster) {
    // Tiles of HalfTiles.cuh. The memory has room for two numbers for each
    // activation, and so for the zeros that fill up rows and columns.
    rows = blocksFor(rows, shape.acts) * shape.acts;
    narrow.pitch = blocksFor(pitch, kTileCols) * kTileCols;
    narrow.plane = rows * kTileCols;
  }
  narrow.rowsPerToken = int(rowsPerToken(p));
  narrow.cols = int(g.w.cols);
  narrow.rowStride =
      p.jobs == Jobs::Heads ? (g.w.cols + g.tail) * 4 : g.actStride;
  narrow.tokenStride =
      p.jobs == Jobs::Heads ? g.actStride : narrow.rowsPerToken * g.actStride;
  if (p.jobs == Jobs::Experts && !g.actPerToken && g.slots) {
    narrow.slots = g.slots;
    narrow.slotCount = g.offsets + g.experts;
  }
  KernelSpec narrowSpec{"kernels/cuda/NarrowA8.cu", "narrow_a8", {}};
  if (!isPanels(p)) {
    narrowSpec = {"kernels/cuda/Narrow.cu",
                  "narrow_" + std::to_string(parts),
                  {{"MOE_PARTS", parts}}};
    if (!addFormat(narrowSpec, p.format))
      return {};
  }
  if (shape.cluster) {
    narrowSpec.entry += "_tiled_" + std::to_string(shape.acts);
    narrowSpec.define("MOE_TILED", shape.acts);
  }

  HalfGemmArgs args{};
  static_cast<GemmArgs &>(args) = g;
  args.narrowed = narrow.out;
  args.scales = narrow.scales;
  args.pitch = narrow.pitch;
  args.plane = narrow.plane;
  args.rowsPerToken = narrow.rowsPerToken;
  KernelSpec spec = productSpec(p, "HalfGemm.cu", "half_gemm", shape.acts);
  for (auto [name, letter, value] :
       {std::tuple("MOE_PARTS", 'p', parts),
        std::tuple("MOE_WARP_ROWS", 'r', shape.warpRows),
        std::tuple("MOE_WARP_COLS", 'c', shape.warpCols),
        std::tuple("MOE_TILES", 't', shape.tiles),
        std::tuple("MOE_SLICES", 's', shape.slices),
        std::tuple("MOE_STAGES", 'd', shape.stages),
        std::tuple("MOE_BLOCKS", 'b', shape.blocks),
        std::tuple("MOE_AHEAD", 'a', shape.ahead),
        std::tuple("MOE_STEP_COLS", 'k', shape.stepCols)}) {
    spec.define(name, value);
    spec.entry += '_' + (letter + std::to_string(value));
  }
  if (shape.cluster) {
    spec.entry += "_l" + std::to_string(shape.cluster);
    spec.define("MOE_CLUSTER", shape.cluster);
  }
  if (shape.hasWarpgroups) {
    spec.entry += "_g";
    spec.define(std::string(kWarpgroup));
  }
  if (isPanels(p)) {
    spec.entry += "_panels";
    spec.define("MOE_PANELS");
  }
  if (!addFormat(spec, p.format))
    return {};
  Tiles tiles = tilesOf(p, shape);
  std::vector<Launch> all{
      makeLaunch(std::move(narrowSpec), {uint32_t(rows)}, kThreads, 0, narrow)};
  // Clusters have a barrier of eight bytes for each stage.
  const int64_t each = std::max<int64_t>(shape.cluster, 1),
                barriers = shape.cluster ? 8 * shape.stages : 0;
  Launch whole =
      makeLaunch(std::move(spec),
                 {uint32_t(blocksFor(tiles.columns, each) * each),
                  uint32_t(tiles.groups), uint32_t(p.heads)},
                 shape.threads(),
                 uint32_t(shape.stages * shape.stageBytes(p) + barriers), args);
  if (Tail tail = tailOf(p, shape, context); tail.isDivided()) {
    std::vector<Launch> divided = tailLaunches<HalfGemmTailArgs, HalfGemmArgs>(
        whole, tail, tiles, shape.acts / shape.warpCols / 8,
        context.workspace + sumsOffset(p, context));
    all.insert(all.end(), divided.begin(), divided.end());
  } else {
    all.push_back(std::move(whole));
  }
  return all;
}

} // namespace moek::cuda
