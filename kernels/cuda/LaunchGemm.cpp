//===- LaunchGemm.cpp - Launches of matrix products -----------------------===//

#include "kernels/cuda/LaunchGemm.h"

#include <algorithm>
#include <cctype>

namespace moek::cuda {

bool addFormat(KernelSpec &spec, Format format) {
  FormatInfo info = formatInfo(format);
  if (!info.hasKernels)
    return false;
  spec.entry += '_';
  for (char c : info.name)
    spec.entry += char(std::tolower(c));
  spec.defines.push_back("MOE_FORMAT=" + std::to_string(int(format)));
  spec.defines.push_back("MOE_BLOCK_ELEMENTS=" +
                         std::to_string(info.blockElements));
  spec.defines.push_back("MOE_BLOCK_BYTES=" + std::to_string(info.blockBytes));
  return true;
}

namespace {
/// Which rows meet which matrix; the numbers are those of Jobs.cuh.
enum class Jobs { Tokens = 0, Heads = 1, Experts = 2 };

/// A product of any of the five ops.
struct Product {
  Jobs jobs = Jobs::Tokens;
  GemmArgs args{};
  Format format = Format::F32, upFormat = Format::F32;
  bool isGate = false;
  int64_t heads = 1;
  int64_t maxRows = 1; ///< Tokens, of experts slots.
};

Product productOf(OpCode op, const void *args, const LaunchContext &context) {
  Product p;
  GemmArgs &g = p.args;
  g.step = context.step;
  p.maxRows = context.maxTokens;
  auto take = [&](const auto &a, const WeightView &w) {
    g.act = a.act;
    g.actStride = a.actStride;
    g.w = matrixOf(w);
    g.out = a.out;
    g.outStride = a.outStride;
    p.format = w.format;
  };
  auto takeUp = [&](const WeightView &up) {
    p.isGate = true;
    g.up = matrixOf(up);
    p.upFormat = up.format;
  };
  auto takeExperts = [&](const auto &a, const WeightView &w, bool perToken) {
    p.jobs = Jobs::Experts;
    g.offsets = a.offsets;
    g.slots = a.slots;
    g.experts = int(w.outer);
    g.topK = a.topK;
    g.actPerToken = perToken;
    p.maxRows = int64_t(context.maxTokens) * a.topK;
  };
  switch (op) {
  case OpCode::Linear: {
    const auto &a = *static_cast<const LinearArgs *>(args);
    take(a, a.w);
    g.bias = a.bias;
    g.accumulate = a.accumulate;
    break;
  }
  case OpCode::GateUp: {
    const auto &a = *static_cast<const GateUpArgs *>(args);
    take(a, a.gate);
    takeUp(a.up);
    break;
  }
  case OpCode::ExpertsLinear: {
    const auto &a = *static_cast<const ExpertsLinearArgs *>(args);
    take(a, a.w);
    takeExperts(a, a.w, a.actPerToken);
    break;
  }
  case OpCode::ExpertsGateUp: {
    const auto &a = *static_cast<const ExpertsGateUpArgs *>(args);
    take(a, a.gate);
    takeUp(a.up);
    takeExperts(a, a.gate, true);
    break;
  }
  case OpCode::HeadLinear: {
    const auto &a = *static_cast<const HeadLinearArgs *>(args);
    p.jobs = Jobs::Heads;
    p.heads = a.w.outer;
    g.act = reinterpret_cast<const u8 *>(a.x);
    g.actStride = a.xStride * 4;
    g.w = matrixOf(a.w);
    g.out = a.out;
    g.outStride = a.outStride;
    g.tail = a.tail;
    p.format = a.w.format;
    break;
  }
  default:
    break;
  }
  return p;
}

/// File and definitions that say what a product is; `rows` of a block.
KernelSpec specOf(const Product &p, const char *file, const char *name,
                  int64_t rows) {
  static constexpr const char *kJobNames[] = {"", "_heads", "_experts"};
  KernelSpec spec{std::string("kernels/cuda/") + file, name, {}};
  if (p.isGate) {
    spec.entry += "_gate_up";
    spec.defines.push_back("MOE_GATE");
  }
  spec.entry += kJobNames[size_t(p.jobs)];
  spec.entry += "_" + std::to_string(rows);
  spec.defines.push_back("MOE_JOBS=" + std::to_string(int(p.jobs)));
  spec.defines.push_back("MOE_ROWS=" + std::to_string(rows));
  return spec;
}

std::vector<Launch> floatGemm(const Product &p) {
  constexpr int64_t kWeightRows = 8, kMaxRows = 8;
  int64_t rows = std::min(p.maxRows, kMaxRows);
  KernelSpec spec = specOf(p, "FloatGemm.cu", "gemm", rows);
  if (!addFormat(spec, p.format))
    return {};
  // Experts' groups begin at any slot.
  uint32_t groups = p.jobs == Jobs::Experts ? uint32_t(p.maxRows)
                                            : blocksFor(p.maxRows, rows);
  return {makeLaunch(
      std::move(spec),
      {blocksFor(p.args.w.rows, kWeightRows), groups, uint32_t(p.heads)}, 256,
      0, p.args)};
}

std::vector<Launch> gemv(const Product &p) {
  constexpr int64_t kWeightRows = 32, kMaxRows = 8, kMaxWarps = 8, kPitch = 36;
  int64_t rows = std::min(p.maxRows, kMaxRows);
  KernelSpec spec = specOf(p, "Gemv.cu", "gemv", kMaxRows);
  if (rows16Shape(p.format).codeBits == 16 || !addFormat(spec, p.format))
    return {};
  // At least two passes of four units each, so that loads of one overlap the
  // arithmetic of the other.
  int64_t warps =
      std::clamp<int64_t>(p.args.w.cols / (32 * 4 * 2), 1, kMaxWarps);
  uint32_t groups = p.jobs == Jobs::Experts ? uint32_t(p.maxRows)
                                            : blocksFor(p.maxRows, kMaxRows);
  int64_t parts = p.isGate ? 2 : 1;
  return {makeLaunch(
      std::move(spec),
      {blocksFor(p.args.w.rows, kWeightRows), groups, uint32_t(p.heads)},
      uint32_t(warps * 32), uint32_t(parts * warps * rows * kPitch * 4),
      p.args)};
}

/// Rows of activations that Gemv.cu takes at a time: up to so many a product is
/// bound by memory.
constexpr int64_t kGemvRows = 8;

/// Rows that meet a matrix, about: experts share them out.
int64_t rowsPerMatrix(const Product &p) {
  return p.jobs == Jobs::Experts
             ? blocksFor(p.maxRows, std::max(p.args.experts, 1))
             : p.maxRows;
}

std::vector<Launch> gemm(const Product &p) {
  // A block's rows: no more than a matrix has, or most of an mma's work would be
  // for nothing. A gate doubles the sums in registers.
  int64_t most = p.isGate ? 64 : 128, rows = 16;
  while (rows < most && rows < rowsPerMatrix(p))
    rows *= 2;
  int64_t warpRows = 4, warpCols = rows >= 64 ? 2 : 1;
  KernelSpec spec = specOf(p, "Gemm.cu", "gemm_mma", rows);
  if (rows16Shape(p.format).codeBits == 16 || !addFormat(spec, p.format))
    return {};
  spec.defines.push_back("MOE_WARP_ROWS=" + std::to_string(warpRows));
  spec.defines.push_back("MOE_WARP_COLS=" + std::to_string(warpCols));
  // Each expert's last group may be short.
  int64_t groups = (p.maxRows + rows - 1) / rows;
  if (p.jobs == Jobs::Experts)
    groups += std::min<int64_t>(p.args.experts, p.maxRows);
  constexpr int64_t kStages = 2, kRowBytes = 128 + 16 + 16;
  return {makeLaunch(std::move(spec),
                     {blocksFor(p.args.w.rows, warpRows * 32),
                      uint32_t(groups), uint32_t(p.heads)},
                     uint32_t(warpRows * warpCols * 32),
                     uint32_t(kStages * rows * kRowBytes), p.args)};
}
} // namespace

std::vector<Launch> gemmLaunches(OpCode op, const void *args,
                                 const LaunchContext &context) {
  Product p = productOf(op, args, context);
  if (p.isGate && p.format != p.upFormat)
    return {};
  if (context.form.layout == Layout::Gguf)
    return floatGemm(p);
  if (context.form.activation == Encoding::F32 || p.jobs == Jobs::Heads)
    return {};
  return rowsPerMatrix(p) <= kGemvRows ? gemv(p) : gemm(p);
}

} // namespace moek::cuda
