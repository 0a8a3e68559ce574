#include "compiler/Machine/CostModel/CostModel.h"

#include "kernels/Activation.h"
#include "kernels/cuda/FloatGemmCycles.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using moe::InstructionWork;
using moe::Product;
using moek::GemmInfo;
using moek::Isa;
using moek::KernelInfo;
using moek::OpCode;
using moert::KernelRate;

namespace moec {

namespace {
const KernelRate *find(const DeviceDesc &device, std::string_view kernel,
                       std::string_view variant = "") {
  for (const KernelRate &rate : device.kernels)
    if (rate.kernel == kernel && rate.variant == variant)
      return &rate;
  return nullptr;
}

/// Interpolates linearly between the points (at, values) and extrapolates from
/// the last two. Below the first point, returns its value.
double onLine(ArrayRef<double> at, ArrayRef<double> values, double x) {
  if (at.size() == 1 || x <= at.front())
    return values.front();
  size_t next = 1;
  while (next + 1 < at.size() && at[next] < x)
    ++next;
  double slope = (values[next] - values[next - 1]) / (at[next] - at[next - 1]);
  return std::max(values[next - 1] + slope * (x - at[next - 1]),
                  0.1 * values[next - 1]);
}

/// How the work of a measured call grows with the size at which a rate is
/// given.
enum class Units { Same, Proportional };

/// Returns the seconds per unit of work at `size`. Interpolates the time of a
/// call, part of which does not depend on the size.
double secondsPerUnit(const KernelRate &rate, double size, bool cached,
                      Units units) {
  const std::vector<double> &rates =
      cached && !rate.cache.empty() ? rate.cache : rate.memory;
  if (rates.size() == 1)
    return 1 / rates.front();
  SmallVector<double> seconds;
  for (auto [at, perSecond] : llvm::zip_equal(rate.at, rates))
    seconds.push_back((units == Units::Same ? 1 : at) / perSecond);
  if (units == Units::Same)
    return onLine(rate.at, seconds, size);
  size = std::max(size, rate.at.front());
  return onLine(rate.at, seconds, size) / size;
}

/// Estimates the time of a kernel that was not calibrated: efficiency times
/// peak, for arithmetic and for traffic.
double rooflineSeconds(double ops, double bytes, const Peak &peak,
                       const DeviceDesc &device) {
  double compute = peak.perSecond > 0 ? ops / peak.planned() : 0;
  return std::max(compute, bytes / device.read.planned(Peak::kAssumedRead));
}

/// Whether every kernel was measured on the device.
bool isCalibrated(const DeviceDesc &device) {
  return !device.kernels.empty() && device.kernelBasis == Basis::Measured;
}

bool isQuantised(Value weight) {
  return isa<moe::QuantTypeInterface>(
      cast<RankedTensorType>(weight.getType()).getElementType());
}

/// Returns the peak rate for a product: 8-bit integers, BF16 tiles, or floats.
const Peak &peakOf(const Product &product, const GemmInfo *gemm,
                   const DeviceDesc &device) {
  if (gemm ? moek::isA8(gemm->activation) ||
                 (gemm->isa == Isa::Cuda && isQuantised(product.weight))
           : device.kind == DeviceKind::Cuda && isQuantised(product.weight))
    return device.int8;
  if (gemm && gemm->isa == Isa::Amx && device.bf16.perSecond > 0)
    return device.bf16;
  return device.float32;
}

/// Products per core and second of the reference gemm. It computes one after
/// another; each waits four cycles for the previous sum and four for the
/// weight's value; at 4 GHz.
constexpr double kReferenceProducts = 5e8;

/// Returns the bytes per byte of the file in the layout that `gemm` reads.
double packedRatio(const GemmInfo &gemm) {
  uint64_t cols = 8 * moek::formatInfo(gemm.format).blockElements;
  return double(moek::rowBytes(gemm.layout, gemm.format, cols)) /
         double(moek::rowBytes(gemm.format, cols));
}

/// Estimates a product without measured rates; `gemm` may be null.
double productRoofline(const Product &product, const GemmInfo *gemm,
                       const DeviceDesc &device) {
  if (gemm && gemm->isa == Isa::Ref && device.isa != Isa::Ref)
    return product.flops() / 2 / (kReferenceProducts * device.cores);
  double bytes = product.bytes() * (gemm ? packedRatio(*gemm) : 1);
  double seconds = rooflineSeconds(product.flops(), bytes,
                                   peakOf(product, gemm, device), device);
  // With few rows of activations, cores mostly unpack weights, and reading
  // hides behind that only in part: on a Zen 4, products of one row that take a
  // seconds with weights in a cache and b seconds to read them take about
  // sqrt(a^2 + b^2) from memory. With 23 formats, of which a is 0.45 to 2.9
  // times b, this is off by 4 % in the median; the longer of both by 20 %.
  if (device.unpack.perSecond > 0 && isQuantised(product.weight))
    seconds = std::max(
        seconds, std::hypot(bytes / device.read.planned(Peak::kAssumedRead),
                            product.elements() / device.unpack.planned()));
  return seconds;
}

/// Returns the least time of a GPU's gemm on rows in the file's layout, without
/// the time to read them.
double fileLayoutSeconds(const Product &product, const GemmInfo &gemm,
                         const DeviceDesc &device) {
  if (int count =
          moek::cuda::halfProducts(gemm.format, product.rows, device.arch))
    return count * product.flops() / device.float32.planned();
  // GPUs since 2018 run at 1.4 to 2.6 GHz.
  constexpr double kCyclesPerSecond = 2e9;
  return product.elements() *
         moek::cuda::floatGemmCycles(gemm.format, product.rows) /
         (kCyclesPerSecond * moek::cuda::kLanes * device.cores);
}

/// Returns the seconds per byte of weights of a gemm with the given rates, for
/// `rows` tokens.
double gemmSecondsPerByte(const KernelRate &rate, double rows, bool cached,
                          const DeviceDesc &device) {
  double seconds = secondsPerUnit(rate, rows, cached, Units::Same);
  // A faster measurement found its weights in a cache that no model fits into.
  // Simulated rates need no such bound: the clock starts with an empty L2.
  return cached || device.kernelBasis == Basis::Simulated
             ? seconds
             : std::max(seconds, 1 / device.read.perSecond);
}

/// Calls visit(n, probability) for each n above 0 of the binomial distribution
/// of `tokens` trials with probability `chance`, except for n with a negligible
/// probability.
void forBinomial(int64_t tokens, double chance,
                 llvm::function_ref<void(int64_t, double)> visit) {
  constexpr double kNever = 1e-9;
  if (chance <= 0 || tokens <= 0)
    return;
  if (chance >= 1)
    return visit(tokens, 1);
  double n = double(tokens), odds = chance / (1 - chance);
  auto mode = std::min(int64_t((n + 1) * chance), tokens);
  double m = double(mode);
  double most = std::exp(std::lgamma(n + 1) - std::lgamma(m + 1) -
                         std::lgamma(n - m + 1) + m * std::log(chance) +
                         (n - m) * std::log1p(-chance));
  double each = most;
  for (int64_t i = mode; i <= tokens && each > kNever; ++i) {
    if (i > 0)
      visit(i, each);
    each *= odds * double(tokens - i) / double(i + 1);
  }
  each = most;
  for (int64_t i = mode; i > 1 && each > kNever; --i) {
    each *= double(i) / (odds * double(tokens - i + 1));
    visit(i - 1, each);
  }
}

/// Returns the seconds of a product with matrices that tokens select. A matrix
/// that few tokens selected takes longer per token than the mean.
double chosenSeconds(const Product &product, const moe::Choices &choices,
                     const KernelRate &rate, bool cached,
                     const DeviceDesc &device) {
  // Seconds per byte of a matrix, by its number of tokens.
  llvm::SmallDenseMap<int64_t, double> byRows;
  double seconds = 0;
  choices.forEach([&](double matrices, double chance) {
    forBinomial(choices.tokens, chance, [&](int64_t rows, double probability) {
      auto [known, isNew] = byRows.try_emplace(rows);
      if (isNew)
        known->second = gemmSecondsPerByte(rate, double(rows), cached, device);
      seconds += matrices * probability * known->second;
    });
  });
  return seconds * product.bytes() / product.matrices;
}

/// `isFirst`: the products of an instruction are one call.
double productSeconds(const Product &product, const moe::Choices &choices,
                      const GemmInfo *gemm, const Situation &situation,
                      const DeviceDesc &device, bool isFirst = true) {
  const KernelRate *rate = gemm ? find(device, gemm->name) : nullptr;
  if (!rate) {
    double seconds = productRoofline(product, gemm, device);
    bool isOfFiles =
        gemm && gemm->isa == Isa::Cuda && gemm->layout == moek::Layout::Gguf;
    return isOfFiles
               ? std::max(seconds, fileLayoutSeconds(product, *gemm, device))
               : seconds;
  }
  bool cached = situation.weightsInCache;
  // Time of a call that does not depend on its weights.
  double call = 0;
  if (const KernelRate *calls =
          isFirst ? find(device, gemm->name, "call") : nullptr)
    call = secondsPerUnit(*calls, product.rows, false, Units::Same);
  if (choices.tokens > 0) {
    // A GPU multiplies many tokens by a matrix for each block.
    if (choices.tokens > moe::kFewTokens)
      if (const KernelRate *experts = find(device, gemm->name, "experts"))
        rate = experts;
    return call + chosenSeconds(product, choices, *rate, cached, device);
  }
  return call + product.bytes() *
                    gemmSecondsPerByte(*rate, product.rows, cached, device);
}

/// Returns the seconds to quantise `values` floats to 8 bits: 4 bytes read, 1
/// written per value.
double encodeSeconds(double values, double rows, Isa isa,
                     const DeviceDesc &device) {
  for (const KernelInfo &kernel : moek::kernelTable())
    if (kernel.op == OpCode::Quantize && kernel.isa == isa)
      if (const KernelRate *rate = find(device, kernel.name))
        return 5 * values *
               secondsPerUnit(*rate, rows, false, Units::Proportional);
  return 0;
}

/// Returns whether the work of an op includes reading and writing a sequence's
/// state once.
bool hasState(OpCode op) {
  return op == OpCode::ShortConv || op == OpCode::DeltaRule ||
         op == OpCode::Compress;
}

/// Returns the seconds of attention: the products of queries and cached rows,
/// and those that decompress rows.
double attentionSeconds(OpCode op, const InstructionWork &work,
                        const KernelChoice &kernels, const Situation &situation,
                        const DeviceDesc &device) {
  std::string type(moek::kvTypeName(work.kvType));
  bool integers = work.kvType == moek::KvType::Q8_0 && kernels.driver &&
                  kernels.driver->isa != Isa::Ref &&
                  kernels.driver->isa != Isa::Cuda &&
                  op != OpCode::SparseAttention && op != OpCode::IndexScores &&
                  op != OpCode::BlockScores && op != OpCode::BlockAttention;
  const Peak &peak = integers ? device.int8 : device.float32;
  // A sequence's tokens only attend to its own cache.
  int64_t tokens = situation.tokens / situation.sequences;
  int64_t seen = situation.cached + tokens;
  if (work.window)
    seen = std::min(seen, work.window - 1 + tokens);
  double depth = double(seen);
  auto measured = [&](const std::string &variant, double ops,
                      double size) -> std::optional<double> {
    const KernelRate *rate =
        kernels.driver ? find(device, kernels.driver->name, variant) : nullptr;
    if (!rate)
      return std::nullopt;
    return ops * secondsPerUnit(*rate, size, false, Units::Proportional);
  };
  if (op != OpCode::MlaAttention) {
    bool few = tokens <= moe::kFewTokens;
    if (auto seconds =
            measured(type + (few ? " one" : " many"), work.ops, depth)) {
      if (!few)
        return *seconds;
      // On a GPU the cache's bytes may take longer than the operations.
      return measured(type + " one call", 1, 1).value_or(0) +
             std::max(
                 *seconds,
                 measured(type + " one bytes", work.kvBytes, 1).value_or(0));
    }
    return rooflineSeconds(work.ops, work.kvBytes + work.activationBytes, peak,
                           device);
  }
  double flops = 0, roofline = 0;
  for (auto [i, product] : llvm::enumerate(work.products)) {
    // W_UK, the first weight, is multiplied as floats if it has no gemm.
    size_t missing = work.products.size() - kernels.gemms.size();
    const GemmInfo *gemm = i < missing ? nullptr : kernels.gemms[i - missing];
    flops += product.flops();
    roofline += productRoofline(product, gemm, device);
  }
  bool keyGemm = kernels.gemms.size() == work.products.size();
  auto rows = measured(type + (keyGemm ? " rows" : " floats"), flops, depth);
  auto pairs = measured(type + " pairs", work.ops, depth);
  if (rows && pairs)
    return *rows + *pairs;
  return roofline + rooflineSeconds(work.ops,
                                    work.kvBytes + work.activationBytes, peak,
                                    device);
}
} // namespace

std::optional<double> measuredSecondsPerByte(const GemmInfo &gemm, double rows,
                                             bool cached,
                                             const DeviceDesc &device) {
  const KernelRate *rate = find(device, gemm.name);
  if (!rate)
    return std::nullopt;
  return gemmSecondsPerByte(*rate, rows, cached, device);
}

double gemmSeconds(const Product &product, const GemmInfo &gemm,
                   const Situation &situation, const DeviceDesc &device) {
  return productSeconds(product, {}, &gemm, situation, device);
}

double instructionSeconds(OpCode op, const InstructionWork &work,
                          const KernelChoice &kernels,
                          const Situation &situation,
                          const DeviceDesc &device) {
  double tokens = double(situation.tokens);
  double ofSequence = tokens / double(situation.sequences);
  double bytes = work.activationBytes + work.kvBytes;
  // Rows that are read from a file take far longer than what is done with them.
  if (work.fileReads > 0)
    return device.storage.seconds(work.fileReads, work.weightBytes);
  switch (op) {
  case OpCode::LatentAttention:
  case OpCode::Attention:
  case OpCode::MlaAttention:
  case OpCode::SparseAttention:
  case OpCode::IndexScores:
  case OpCode::BlockScores:
  case OpCode::BlockAttention:
    return attentionSeconds(op, work, kernels, situation, device);
  case OpCode::AbsorbQuery:
    if (const KernelRate *rate =
            kernels.driver ? find(device, kernels.driver->name) : nullptr)
      return work.products.front().elements() *
             secondsPerUnit(*rate, tokens, false, Units::Same);
    break;
  default:
    break;
  }
  if (!work.products.empty()) {
    double seconds = 0, roofline = 0;
    bool hasRates = true;
    for (auto [i, product] : llvm::enumerate(work.products)) {
      const GemmInfo *gemm =
          i < kernels.gemms.size() ? kernels.gemms[i] : nullptr;
      hasRates &= gemm && find(device, gemm->name);
      seconds += productSeconds(product, work.choices, gemm, situation, device,
                                /*isFirst=*/i == 0);
      roofline += product.bytes();
      if (op == OpCode::HeadLinear && gemm && moek::isA8(gemm->activation) &&
          kernels.driver)
        seconds += encodeSeconds(
            product.rows * product.elements() /
                double(cast<RankedTensorType>(product.weight.getType())
                           .getDimSize(1)),
            tokens, kernels.driver->isa, device);
    }
    // The output of a head is long and its products are short. With many
    // tokens, the time to read and write its rows, which are far apart and no
    // longer in the cache, is not hidden behind them.
    if (op == OpCode::HeadLinear && isCalibrated(device) &&
        situation.tokens > moe::kFewTokens)
      seconds += 2 * bytes / device.read.planned(Peak::kAssumedRead);
    // A product of few columns is limited by the activations that it reads and
    // writes; rates include them.
    return hasRates
               ? seconds
               : std::max(seconds, rooflineSeconds(0, roofline + bytes,
                                                   device.float32, device));
  }
  const KernelRate *rate = nullptr;
  if (kernels.driver) {
    rate = find(device, kernels.driver->name, work.variant);
    // Files written before a variant was measured have only the main one.
    if (!rate)
      rate = find(device, kernels.driver->name);
  }
  if (rate) {
    bool byOps = op == OpCode::Router || op == OpCode::DeltaRule;
    return (byOps ? work.ops : bytes) *
           secondsPerUnit(*rate, hasState(op) ? ofSequence : tokens, false,
                          Units::Proportional);
  }
  // Other ops without measured rates read and write almost nothing, so their
  // estimate hardly matters.
  return rooflineSeconds(work.ops, work.weightBytes + bytes, device.float32,
                         device);
}

double transferSeconds(double bytes, const DeviceDesc &device) {
  // If both devices share a memory, reading and writing it take the time.
  if (device.sharesMemory)
    return device.linkLatencySeconds +
           2 * bytes / device.read.planned(Peak::kAssumedRead);
  if (device.link.perSecond <= 0)
    return 0;
  return device.linkLatencySeconds +
         bytes / device.link.planned(Peak::kAssumedRead);
}

double ringSeconds(double bytes, const DeviceDesc &host,
                   const DeviceDesc &gpu) {
  constexpr double kPasses = 3;
  double rate = host.read.planned(Peak::kAssumedRead);
  return std::max(transferSeconds(bytes, gpu),
                  rate > 0 ? kPasses * bytes / rate : 0);
}

double copySeconds(double bytes, const DeviceDesc &from, const DeviceDesc &to) {
  double seconds = 0;
  for (const DeviceDesc *end : {&from, &to})
    if (end->kind == DeviceKind::Cuda)
      seconds += transferSeconds(bytes, *end);
  return seconds;
}

bool stayInCache(double bytes, const DeviceDesc &device) {
  // The other half is for activations, the KV cache and other programs.
  return bytes <= double(device.l3Bytes) / 2;
}

} // namespace moec
