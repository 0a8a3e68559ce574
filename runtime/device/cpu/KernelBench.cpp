#include "runtime/device/cpu/KernelBench.h"

#include "kernels/Abi.h"
#include "kernels/Activation.h"
#include "kernels/KvCache.h"
#include "kernels/KvSplitCount.h"
#include "kernels/Scratch.h"
#include "runtime/base/HostCpu.h"
#include "runtime/base/MappedFile.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <sys/mman.h>

namespace moert {

using namespace moek;

namespace {
/// Shape of the weights that GEMMs are measured with: an expert of a
/// medium-sized model. A matrix of 4-bit values has 2.3 MiB, which take 100 us
/// to read: as long as an instruction takes for a decoded token.
constexpr int64_t kCols = 2048, kMatrixRows = 2048;
/// Rows for kernels in plain C++, whose speed does not depend on the size.
constexpr int64_t kFewMatrixRows = 64;
/// DeepSeek's latent attention with the number of heads of the Lite model.
/// Rates for other shapes are scaled by their operations.
constexpr int32_t kHeads = 16, kNope = 128, kRope = 64, kLatent = 512,
                  kValue = 128;
/// The shape for grouped-query attention: groups of eight heads with 128
/// columns.
constexpr int32_t kKvHeads = 2;
constexpr int32_t kExperts = 64, kTopK = 6;
/// Value of every byte of weights and activations: 0.0115 as F32 and BF16, 1.06
/// as F16.
constexpr int kFill = 0x3c;
/// Room for an F32 matrix, 16 MiB, and for a cache of 8192 F32 rows, 18 MiB.
constexpr uint64_t kLeastBytes = 20u << 20;
constexpr size_t kMostCalls = 64;
/// Number of runs in a measurement if calls are short.
constexpr double kRuns = 5;
constexpr uint64_t kActivationBytes = 64u << 20;

double secondsNow() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

uint64_t memoryBytesFor(int threads, uint64_t asked) {
  if (asked != 0)
    return asked;
  uint64_t least = uint64_t(threads) * (64u << 20);
  uint64_t bytes = std::max(least, 4 * hostCaches().l3Bytes);
  uint64_t memory = hostMemoryBytes();
  return memory == 0 ? least : std::min(bytes, memory / 16);
}

/// Returns a size larger than the cores' private caches and well within the
/// shared one.
uint64_t cacheBytesFor(int threads, uint64_t most) {
  CacheSizes caches = hostCaches();
  uint64_t own = 2 * caches.l2Bytes * uint64_t(threads);
  uint64_t bytes = std::max(own, caches.l3Bytes / 8);
  return std::min(std::max<uint64_t>(bytes, 1 << 20), most);
}

KvView cacheView(KvType type, std::byte *data, int64_t rows,
                 int64_t width = kLatent + kRope) {
  return {reinterpret_cast<uint8_t *>(data), width, rows,
          kvRowBytes(type, width), type};
}
} // namespace

StatusOr<KernelBench> KernelBench::create(int threads,
                                          const KernelRateOptions &options) {
  KernelBench bench;
  bench.options_ = options;
  MOE_ASSIGN_OR_RETURN(bench.pool_, WorkerPool::create(threads, eachCore()));
  uint64_t share = memoryBytesFor(threads, options.memoryBytes) /
                   uint64_t(threads) / 4096 * 4096;
  share = std::max(share, kLeastBytes / uint64_t(threads) / 4096 * 4096 + 4096);
  MOE_ASSIGN_OR_RETURN(
      bench.weights_,
      HostMemory::allocate(share * uint64_t(threads),
                           "the measurement of kernels' speed"));
  // Plans map their weights from files, which few file systems do in large
  // pages. Without large pages, decode is about 8 % slower.
  (void)::madvise(bench.weights_.data(), bench.weights_.size(),
                  options.largePages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  for (HostMemory *memory : {&bench.inputs_, &bench.outputs_}) {
    MOE_ASSIGN_OR_RETURN(
        *memory, HostMemory::allocate(kActivationBytes,
                                      "the measurement of kernels' speed"));
    std::memset(memory->data(), kFill, memory->size());
  }
  bench.scratchEach_ =
      std::max({gateUpScratchBytes(),
                latentAttentionScratchBytes(kHeads, kLatent, kRope),
                attentionScratchBytes(kHeads, kKvHeads, kValue, kValue),
                mlaAttentionScratchBytes(kNope, kRope, kLatent, kValue),
                absorbQueryScratchBytes(kLatent), routerScratchBytes(kExperts),
                statesScratchBytes()});
  bench.scratchEach_ = (bench.scratchEach_ + 4095) / 4096 * 4096;
  MOE_ASSIGN_OR_RETURN(
      bench.scratch_,
      HostMemory::allocate(bench.scratchEach_ * uint64_t(threads),
                           "the measurement of kernels' speed"));
  bench.tickets_.assign(size_t(threads) * kMostCalls, 0);
  MOE_ASSIGN_OR_RETURN(
      bench.caches_, HostMemory::allocate(share * uint64_t(threads),
                                          "the measurement of kernels' speed"));
  bench.pool_->run([&](int32_t worker) {
    for (HostMemory *memory : {&bench.weights_, &bench.caches_})
      std::memset(memory->data() + uint64_t(worker) * share, kFill, share);
  });
  bench.queuedBefore_ = bench.pool_->secondsQueued();
  return bench;
}

double KernelBench::run(const std::vector<Call> &calls, size_t first,
                        size_t count) {
  size_t stride = kMostCalls;
  std::ranges::fill(tickets_, 0u);
  double start = 0, end = 0;
  int32_t team = pool_->team();
  pool_->run([&](int32_t index) {
    Worker worker{index, team,
                  scratch_.data() + uint64_t(index) * scratchEach_};
    worker.ticketStride = int64_t(stride);
    pool_->barrier().arriveAndWait([&] { start = secondsNow(); });
    for (size_t i = 0; i < count; ++i) {
      const Call &call = calls[(first + i) % calls.size()];
      worker.tickets = tickets_.data() + i;
      call.function(call.args, call.step, worker);
      pool_->barrier().arriveAndWait([&] {
        if (i + 1 == count)
          end = secondsNow();
      });
    }
  });
  return end - start;
}

double KernelBench::secondsOf(const std::vector<Call> &calls, size_t group) {
  // The first call finds caches cold, which does not matter for a long call.
  double estimate = run(calls, 0, group) / double(group);
  if (secondsNow() - begin_ > options_.mostSeconds)
    return std::max(estimate - barrierSeconds_, estimate / 5);
  // Runs are short enough to fit between other programs' time slices, and long
  // enough to fill a pipeline.
  size_t count =
      std::clamp(size_t(options_.seconds / kRuns / std::max(estimate, 1e-7)),
                 size_t(1), kMostCalls);
  count = (count + group - 1) / group * group;
  std::vector<double> each;
  double spent = 0;
  if (estimate > options_.seconds)
    each.push_back(estimate);
  size_t least = options_.brief ? 1 : 2;
  for (size_t next = group; each.size() < least || spent < options_.seconds;
       next += count) {
    double seconds = run(calls, next, count);
    each.push_back(seconds / double(count));
    spent += seconds;
  }
  std::ranges::sort(each);
  // Other programs can only slow a run down, but the very fastest run is
  // chance.
  double typical = each[each.size() / 4];
  // The spread: how far the chosen time may be from what the machine can do.
  spread_ += 1 - each.front() / typical;
  ++measured_;
  // Never 0, because a clock tick may be as long as a call.
  return std::max(typical - barrierSeconds_, typical / 5);
}

Disturbance KernelBench::disturbance() {
  double queued = pool_->secondsQueued() - queuedBefore_;
  double all = secondsNow() - begin_;
  return {measured_ ? spread_ / double(measured_) : 0,
          std::max(queued, 0.0) / std::max(all, 1e-9)};
}

StepOverheads KernelBench::overheads() {
  begin_ = secondsNow();
  auto best = [&](int times, auto measure) {
    double fastest = 1;
    for (int i = 0; i < times; ++i)
      fastest = std::min(fastest, measure());
    return fastest;
  };
  StepOverheads seconds;
  // A millisecond of instructions, in which all threads wake up.
  constexpr int kMany = 100;
  seconds.step = best(5, [&] {
    double begin = secondsNow();
    for (int i = 0; i < kMany; ++i)
      pool_->run([](int32_t) {});
    return (secondsNow() - begin) / kMany;
  });
  seconds.barrier = best(5, [&] {
    double begin = secondsNow();
    pool_->run([&](int32_t) {
      for (int i = 0; i < kMany; ++i)
        pool_->barrier().arriveAndWait();
    });
    return std::max(secondsNow() - begin - seconds.step, 0.0) / kMany;
  });
  // The overhead of an instruction is measured with a kernel that has no work.
  startOver();
  AddArgs add{input<float>(16), input<float>(16), output<float>(16), 16};
  const KernelInfo *opKernel = nullptr;
  for (const KernelInfo &kernel : kernelTable())
    if (kernel.op == OpCode::Add && runsOn(kernel.isa, bestHostIsa()))
      opKernel = !opKernel || kernel.isa > opKernel->isa ? &kernel : opKernel;
  KernelFn function = resolveKernel(opKernel->name);
  seconds.instruction = best(5, [&] {
    Worker alone{0, 1, scratch_.data()};
    double begin = secondsNow();
    for (int i = 0; i < kMany; ++i)
      function(&add, {1, 0}, alone);
    return (secondsNow() - begin) / kMany;
  });
  barrierSeconds_ = seconds.barrier;
  return seconds;
}

double KernelBench::gemm(const GemmInfo &gemm, const KernelInfo &linear,
                         int32_t tokens, bool cached) {
  startOver();
  int64_t rows = gemm.isa == Isa::Ref ? kFewMatrixRows : kMatrixRows;
  int64_t stride = int64_t(rowBytes(gemm.layout, gemm.format, uint64_t(kCols)));
  uint64_t matrixBytes = uint64_t(rows * stride);
  uint64_t bytes = weights_.size();
  if (cached)
    bytes = std::max(cacheBytesFor(pool_->team(), bytes), matrixBytes);
  LinearArgs args{};
  args.actStride = encodedRowBytes(gemm.activation, kCols);
  args.act = input<uint8_t>(tokens * args.actStride);
  args.gemm = resolveGemm(gemm.name);
  args.out = output<float>(tokens * rows);
  args.outStride = rows;
  // Enough matrices that the first has left the cache before it is used again.
  std::vector<LinearArgs> all(bytes / matrixBytes, args);
  std::vector<Call> calls;
  KernelFn function = resolveKernel(linear.name);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].w = {reinterpret_cast<const uint8_t *>(weights_.data()) +
                    i * matrixBytes,
                1,
                rows,
                kCols,
                rows * stride,
                stride,
                gemm.format};
    calls.push_back({function, &all[i], {tokens, 0}});
  }
  if (cached) // One pass brings all matrices into the cache.
    run(calls, 0, std::min(calls.size(), kMostCalls));
  return double(rows) * double(rowBytes(gemm.format, uint64_t(kCols))) /
         secondsOf(calls);
}

double KernelBench::opKernel(const KernelInfo &opKernel, int32_t tokens,
                             std::string_view variant) {
  startOver();
  KernelFn function = resolveKernel(opKernel.name);
  auto rate = [&](const auto &args, double units) {
    return units / secondsOf({{function, &args, {tokens, 0}}});
  };
  double values = double(tokens) * kCols;
  switch (opKernel.op) {
  case OpCode::RmsNorm: {
    RmsNormArgs a{};
    a.x = input<float>(tokens * kCols), a.weight = input<float>(kCols);
    a.out = output<float>(tokens * kCols);
    a.xStride = a.outStride = a.cols = kCols, a.groups = 1, a.eps = 1e-6f;
    return rate(a, 8 * values);
  }
  case OpCode::Quantize: {
    QuantizeArgs a{};
    a.x = input<float>(tokens * kCols), a.xStride = a.cols = kCols;
    a.outStride = a8RowBytes(kCols);
    a.out = output<uint8_t>(tokens * a.outStride);
    a.rowsPerToken = 1, a.blockCols = kA8Block;
    return rate(a, 5 * values);
  }
  case OpCode::ActivationMul: {
    ActivationMulArgs a{};
    a.gate = input<float>(tokens * kCols), a.up = input<float>(tokens * kCols);
    a.out = output<float>(tokens * kCols), a.cols = kCols, a.rowsPerToken = 1;
    return rate(a, 12 * values);
  }
  case OpCode::Add: {
    AddArgs a{input<float>(tokens * kCols), input<float>(tokens * kCols),
              output<float>(tokens * kCols), kCols};
    return rate(a, 12 * values);
  }
  case OpCode::Rope: {
    RopeArgs a{};
    a.heads = kHeads, a.headStride = kNope + kRope, a.offset = kNope;
    a.dim = kRope, a.stride = a.heads * a.headStride;
    a.x = output<float>(tokens * a.stride);
    // The rotation is by zero, so that repeating it changes nothing.
    auto *table = output<float>(tokens * kRope);
    for (int64_t i = 0; i < int64_t(tokens) * kRope; ++i)
      table[i] = i % kRope < kRope / 2 ? 1.0f : 0.0f;
    a.table = table;
    return rate(a, 8.0 * tokens * kHeads * kRope);
  }
  case OpCode::MlaLatent: {
    MlaLatentArgs a{};
    a.latent = kLatent, a.rope = kRope, a.stride = kLatent + kRope;
    a.eps = 1e-6f;
    a.x = input<float>(tokens * a.stride), a.weight = input<float>(kLatent);
    a.table = input<float>(tokens * kRope);
    a.kv = cacheView(KvType::F16, output<std::byte>(tokens * a.stride * 2),
                     tokens);
    return rate(a, double(tokens * a.stride) * (4 + 2));
  }
  case OpCode::Router: {
    RouterArgs a{};
    auto *logits = output<float>(tokens * kExperts);
    for (int64_t i = 0; i < int64_t(tokens) * kExperts; ++i)
      logits[i] = float((i * 37) % 101) / 50 - 1;
    a.logits = logits, a.stride = kExperts;
    a.experts = kExperts, a.topK = kTopK,
    a.groups = a.groupsUsed = a.groupBest = 1;
    a.scoring = Scoring::Softmax, a.scale = 1;
    a.ids = output<int32_t>(tokens * kTopK);
    a.weights = output<float>(tokens * kTopK);
    return rate(a, 4.0 * tokens * kExperts);
  }
  case OpCode::ExpertsCombine: {
    ExpertsCombineArgs a{};
    a.y = input<float>(tokens * kTopK * kCols);
    a.weights = input<float>(tokens * kTopK);
    a.out = output<float>(tokens * kCols), a.cols = kCols, a.topK = kTopK;
    return rate(a, 4 * values * (kTopK + 1));
  }
  case OpCode::AbsorbQuery: {
    AbsorbQueryArgs a{};
    a.heads = kHeads, a.nope = kNope, a.rope = kRope, a.latent = kLatent;
    a.qStride = kHeads * (kNope + kRope);
    a.outStride = kHeads * (kLatent + kRope);
    a.q = input<float>(tokens * a.qStride);
    a.out = output<float>(tokens * a.outStride);
    int64_t stride = int64_t(rowBytes(Format::Q8_0, uint64_t(kLatent)));
    a.w = {reinterpret_cast<const uint8_t *>(weights_.data()),
           kHeads,
           kNope,
           kLatent,
           kNope * stride,
           stride,
           Format::Q8_0};
    return rate(a, double(kHeads) * kNope * kLatent);
  }
  default:
    return stateful(opKernel, tokens, variant);
  }
}

template <class Args>
double KernelBench::secondsOfLayers(const KernelInfo &opKernel,
                                    const KernelInfo *combine, Args a,
                                    int64_t width, int32_t value, KvType type,
                                    Step step) {
  startOver();
  a.scale = 0.07f;
  a.q = input<float>(step.tokens * a.qStride);
  // The number of KV splits is the one that plans use.
  int64_t groups = 1;
  if constexpr (requires { a.kvHeads; })
    groups = a.kvHeads;
  int64_t splits = combine ? std::min(fewestKvSplits(groups, pool_->team()),
                                      kMostCpuKvSplits)
                           : 1;
  a.splits = int32_t(splits);
  a.outStride = a.heads * int64_t(combine ? value + 2 : value);
  a.out = output<float>(step.tokens * a.splits * a.outStride);
  CombineSplitsArgs sum{};
  sum.heads = a.heads, sum.latent = value, sum.splits = a.splits;
  sum.x = a.out, sum.xStride = a.outStride;
  sum.outStride = a.heads * int64_t(value);
  sum.out = output<float>(step.tokens * sum.outStride);
  // Each layer has a cache, which has left the CPU's caches before its next
  // use.
  int64_t depth = step.position + step.tokens;
  auto bytes = uint64_t(kvBytes(type, width, depth) + 63) / 64 * 64;
  size_t layers = std::clamp<size_t>(caches_.size() / bytes, 1, 64);
  std::vector<Args> all(layers, a);
  std::vector<Call> calls;
  for (size_t i = 0; i < layers; ++i) {
    all[i].kv = cacheView(type, caches_.data() + i * bytes, depth, width);
    calls.push_back({resolveKernel(opKernel.name), &all[i], step});
    if (combine)
      calls.push_back({resolveKernel(combine->name), &sum, step});
  }
  double group = combine ? 2 : 1;
  return secondsOf(calls, size_t(group)) * group;
}

double KernelBench::latent(const KernelInfo &opKernel,
                           const KernelInfo *combine, KvType type,
                           int32_t tokens, int32_t depth) {
  Step step{tokens, depth - tokens};
  LatentAttentionArgs a{};
  a.heads = kHeads, a.latent = kLatent, a.rope = kRope;
  a.qStride = kHeads * (kLatent + kRope);
  double each = secondsOfLayers(opKernel, combine, a, kLatent + kRope, kLatent,
                                type, step);
  return 2 * pairsOf(step) * kHeads * (2 * kLatent + kRope) / each;
}

double KernelBench::grouped(const KernelInfo &opKernel,
                            const KernelInfo *combine, KvType type,
                            int32_t tokens, int32_t depth) {
  Step step{tokens, depth - tokens};
  AttentionArgs a{};
  a.heads = kHeads, a.kvHeads = kKvHeads, a.key = a.value = kValue;
  a.qStride = kHeads * kValue;
  double each =
      secondsOfLayers(opKernel, combine, a,
                      gqaKvWidth(kKvHeads, kValue, kValue), kValue, type, step);
  return 2 * pairsOf(step) * kHeads * 2 * kValue / each;
}

MlaRates KernelBench::mla(const KernelInfo &opKernel, KvType type,
                          int32_t depth) {
  const GemmInfo *gemm = nullptr;
  for (const GemmInfo &info : gemmTable())
    if (info.format == Format::Q8_0 && runsOn(info.isa, opKernel.isa) &&
        hostSupports(info.isa) && (!gemm || info.isa >= gemm->isa))
      gemm = &info;
  auto seconds = [&](Step step, bool keys) {
    startOver();
    MlaAttentionArgs a{};
    a.heads = kHeads, a.nope = kNope, a.rope = kRope, a.latent = kLatent;
    a.value = kValue, a.scale = 0.07f;
    a.qStride = kHeads * (kNope + kRope), a.outStride = kHeads * kValue;
    a.q = input<float>(step.tokens * a.qStride);
    a.out = output<float>(step.tokens * a.outStride);
    a.valueGemm = resolveGemm(gemm->name);
    a.keyGemm = keys ? a.valueGemm : nullptr;
    a.encoding = gemm->activation;
    auto matrix = [&](int64_t at, int64_t rows, int64_t cols) -> WeightView {
      int64_t stride = int64_t(rowBytes(Format::Q8_0, uint64_t(cols)));
      return {reinterpret_cast<const uint8_t *>(weights_.data()) + at,
              kHeads,
              rows,
              cols,
              rows * stride,
              stride,
              Format::Q8_0};
    };
    a.wk = keys ? matrix(0, kNope, kLatent) : matrix(0, kLatent, kNope);
    a.wv = matrix(2 << 20, kValue, kLatent);
    a.kv = cacheView(type, caches_.data(), step.position + step.tokens);
    return secondsOf({{resolveKernel(opKernel.name), &a, step}});
  };
  double products = 2.0 * depth * kHeads * (kNope + kValue) * kLatent;
  // One query takes little time beyond decompression. In the second
  // measurement, queries come in whole tiles and attend to half of the rows on
  // average.
  double rows = seconds({1, depth - 1}, true);
  double floats = seconds({1, depth - 1}, false);
  Step many{depth, 0};
  double all = seconds(many, true);
  double pairs = std::max(all - rows, all / 20);
  return {products / rows, products / floats,
          2 * pairsOf(many) * kHeads * (kNope + kRope + kValue) / pairs};
}

} // namespace moert
