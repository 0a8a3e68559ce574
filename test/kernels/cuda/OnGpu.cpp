#include "test/kernels/cuda/OnGpu.h"

#include "kernels/Activation.h"
#include "kernels/KvCache.h"
#include "kernels/OpKernels.h"
#include "test/kernels/Phase.h"
#include "test/kernels/cuda/SoftwareGpu.h"

#include <algorithm>

namespace moek::test {

Files::Files(const WeightView &w) : view(w) {
  view.rowStride = int64_t(rowBytes(w.format, uint64_t(w.cols)));
  view.outerStride = w.rows * view.rowStride;
  for (int64_t o = 0; o < w.outer; ++o)
    for (int64_t r = 0; r < w.rows; ++r) {
      const uint8_t *row = w.data + o * w.outerStride + r * w.rowStride;
      bytes.insert(bytes.end(), row, row + view.rowStride);
    }
  view.data = bytes.data();
}

namespace {
/// Bytes from the first of `rows` rows to the end of the last.
int64_t extent(int64_t rows, int64_t stride, int64_t cols) {
  return (rows - 1) * stride + cols;
}
int64_t floats(int64_t rows, int64_t stride, int64_t cols) {
  return extent(rows, stride, cols) * 4;
}

/// Replaces pointers of `args` by those of copies on the GPU.
struct Moved {
  Mirror &mirror;
  const Step &step;
  cuda::GemmForm form;
  int64_t tokens = step.tokens;

  template <class T> void in(T &pointer, int64_t bytes) {
    pointer = mirror.in(pointer, bytes);
  }
  template <class T> void out(T &pointer, int64_t bytes) {
    pointer = mirror.out(pointer, bytes);
  }
  void weight(WeightView &w, Layout layout = Layout::Gguf) {
    if (!w.data)
      return;
    auto row = int64_t(rowBytes(layout, w.format, uint64_t(w.cols)));
    in(w.data, extent(w.outer, w.outerStride,
                      extent(storedRows(layout, w.rows), w.rowStride, row)));
  }
  void act(const uint8_t *&act, int64_t rows, int64_t stride, int64_t cols) {
    in(act, extent(rows, stride, encodedRowBytes(form.activation, cols)));
  }
  void cache(KvView &kv, bool isWritten) {
    int64_t bytes = kvRows(kv.type, kv.capacity) * kv.rowStride;
    if (isWritten)
      out(kv.data, bytes);
    else
      kv.data = const_cast<uint8_t *>(
          mirror.in(static_cast<const uint8_t *>(kv.data), bytes));
  }

  void move(EmbedArgs &a) {
    in(a.tokens, tokens * 4);
    weight(a.table);
    out(a.out, floats(tokens, a.outStride, a.cols));
  }
  void move(RopeTableArgs &a) {
    in(a.invFreq, a.dim / 2 * 4);
    out(a.out, tokens * a.dim * 4);
  }
  void move(RmsNormArgs &a) {
    bool inPlace = a.x == a.out;
    int64_t cols = a.groups * a.cols;
    in(a.weight, (a.whole ? cols : a.cols) * 4);
    out(a.out, floats(tokens, a.outStride, cols));
    if (inPlace)
      a.x = a.out;
    else
      in(a.x, floats(tokens, a.xStride, cols));
  }
  void move(QuantizeArgs &a) {
    int64_t rows = tokens * a.rowsPerToken;
    in(a.x, floats(rows, a.xStride, a.cols));
    out(a.out, extent(rows, a.outStride, a8RowBytes(a.cols)));
  }
  void move(LinearArgs &a) {
    act(a.act, tokens, a.actStride, a.w.cols);
    weight(a.w, form.layout);
    in(a.bias, a.w.rows * 4);
    out(a.out, floats(tokens, a.outStride, a.w.rows));
  }
  void move(GateUpArgs &a) {
    act(a.act, tokens, a.actStride, a.gate.cols);
    weight(a.gate, form.layout);
    weight(a.up, form.layout);
    in(a.gateBias, a.gate.rows * 4);
    in(a.upBias, a.up.rows * 4);
    out(a.out, floats(tokens, a.outStride, a.gate.rows));
  }
  void move(ActivationMulArgs &a) {
    int64_t bytes = tokens * a.rowsPerToken * a.cols * 4;
    if (a.up)
      return inPair(a.gate, a.up, a.out, bytes);
    const float *gate = a.gate;
    inPair(a.gate, gate, a.out, bytes);
  }
  void move(PositionScaleArgs &a) {
    const float *x = a.x;
    inPair(a.x, x, a.out, tokens * a.cols * 4);
  }
  void move(EmbedPositionsArgs &a) {
    weight(a.table);
    out(a.out, tokens * a.cols * 4);
  }
  void move(GateMulArgs &a) {
    int64_t bytes = tokens * a.cols * 4;
    if (a.gates == a.cols)
      return inPair(a.x, a.gate, a.out, bytes);
    in(a.gate, tokens * a.gates * 4);
    const float *x = a.x;
    inPair(a.x, x, a.out, bytes);
  }
  void move(ScaleArgs &a) {
    const float *x = a.x;
    inPair(a.x, x, a.out, tokens * a.cols * 4);
  }
  void move(AddArgs &a) { inPair(a.x, a.y, a.out, tokens * a.cols * 4); }
  void inPair(const float *&x, const float *&y, float *&to, int64_t bytes) {
    const float *host = to;
    out(to, bytes);
    x = x == host ? to : mirror.in(x, bytes);
    y = y == host ? to : mirror.in(y, bytes);
  }
  void move(RopeArgs &a) {
    in(a.table, tokens * a.dim * 4);
    out(a.x, floats(tokens, a.stride, int64_t(a.heads) * a.headStride));
  }
  void move(MlaLatentArgs &a) {
    in(a.x, floats(tokens, a.stride, a.latent + a.rope));
    in(a.weight, a.latent * 4);
    in(a.table, tokens * a.rope * 4);
    cache(a.kv, true);
  }
  void move(AbsorbQueryArgs &a) {
    in(a.q, floats(tokens, a.qStride, int64_t(a.heads) * (a.nope + a.rope)));
    weight(a.w);
    out(a.out,
        floats(tokens, a.outStride, int64_t(a.heads) * (a.latent + a.rope)));
  }
  void move(LatentAttentionArgs &a) {
    int64_t cols = int64_t(a.heads) * (a.latent + (a.splits > 1 ? 2 : 0));
    in(a.q, floats(tokens, a.qStride, int64_t(a.heads) * (a.latent + a.rope)));
    cache(a.kv, false);
    out(a.out, floats(tokens * a.splits, a.outStride, cols));
  }
  void move(CombineSplitsArgs &a) {
    in(a.x,
       floats(tokens * a.splits, a.xStride, int64_t(a.heads) * (a.latent + 2)));
    out(a.out, floats(tokens, a.outStride, int64_t(a.heads) * a.latent));
  }
  void move(KvStoreArgs &a) {
    in(a.k, floats(tokens, a.kStride, int64_t(a.heads) * a.key));
    in(a.v, floats(tokens, a.vStride, int64_t(a.heads) * a.value));
    cache(a.kv, true);
  }
  void move(AttentionArgs &a) {
    int64_t cols = int64_t(a.heads) * (a.value + (a.splits > 1 ? 2 : 0));
    in(a.q, floats(tokens, a.qStride, int64_t(a.heads) * a.key));
    in(a.sinks, a.heads * 4);
    cache(a.kv, false);
    out(a.out, floats(tokens * a.splits, a.outStride, cols));
  }
  void move(RegroupArgs &a) {
    int64_t cols = int64_t(a.groups) * (a.first + a.second + a.third);
    in(a.x, floats(tokens, a.xStride, a.groups * a.width));
    out(a.out, floats(tokens, a.outStride, cols));
  }
  void move(ShortConvArgs &a) {
    int64_t parts = a.second ? 3 : 1, part = a.cols / parts;
    for (auto *x : {&a.x, &a.second, &a.third})
      in(*x, floats(tokens, a.xStride, part));
    for (auto *weight : {&a.weight, &a.secondWeight, &a.thirdWeight})
      in(*weight, part * a.taps * 4);
    in(a.bias, a.cols * 4);
    cache(a.state, true);
    out(a.out, floats(tokens, a.outStride, a.cols));
  }
  void move(DeltaGatesArgs &a) {
    in(a.beta, tokens * a.heads * 4);
    in(a.alpha, tokens * a.decays * 4);
    in(a.a, a.heads * 4);
    in(a.dt, a.decays * 4);
    out(a.out, tokens * (a.heads + a.decays) * 4);
  }
  void move(DeltaRuleArgs &a) {
    int64_t values = int64_t(a.heads) * a.value;
    in(a.x,
       floats(tokens, a.xStride, 2 * int64_t(a.keyHeads) * a.key + values));
    in(a.gates, tokens * a.gatesStride * 4);
    in(a.skip, a.heads * 4);
    cache(a.state, true);
    out(a.out, floats(tokens, a.outStride, values));
  }
  void move(LayerNormArgs &a) {
    in(a.x, floats(tokens, a.xStride, a.cols));
    in(a.weight, a.cols * 4);
    in(a.bias, a.cols * 4);
    out(a.out, floats(tokens, a.outStride, a.cols));
  }
  void move(RowStoreArgs &a) {
    in(a.x, floats(tokens, a.xStride, a.kv.width));
    cache(a.kv, true);
  }
  void move(IndexScoresArgs &a) {
    in(a.q, floats(tokens, a.qStride, int64_t(a.heads) * a.key));
    in(a.weights, floats(tokens, a.weightsStride, a.heads));
    cache(a.kv, false);
    out(a.out, tokens * a.outStride * 4);
  }
  void move(IndexSelectArgs &a) {
    in(a.scores, tokens * a.groups * a.scoresStride * 4);
    out(a.chosen, tokens * a.groups * a.topK * 4);
  }
  void move(BlockScoresArgs &a) {
    in(a.q, floats(tokens, a.qStride, int64_t(a.groups) * a.key));
    cache(a.kv, false);
    out(a.out, tokens * a.groups * a.outStride * 4);
  }
  void move(BlockAttentionArgs &a) {
    in(a.q, floats(tokens, a.qStride, int64_t(a.heads) * a.key));
    cache(a.kv, false);
    in(a.chosen, tokens * a.groups * a.topK * 4);
    out(a.out, floats(tokens, a.outStride, int64_t(a.heads) * a.value));
  }
  void move(SparseAttentionArgs &a) {
    in(a.q, floats(tokens, a.qStride, int64_t(a.heads) * a.key));
    in(a.sinks, a.heads * 4);
    for (KvView *kv : {&a.kv, &a.entries})
      if (kv->data)
        cache(*kv, false);
    in(a.chosen, tokens * a.topK * 4);
    out(a.out, floats(tokens, a.outStride, int64_t(a.heads) * a.value));
  }
  void move(CompressArgs &a) {
    int64_t cols = a.overlap ? 2 * a.cols : a.cols;
    in(a.kv, floats(tokens, a.kvStride, cols));
    in(a.gate, floats(tokens, a.gateStride, cols));
    in(a.ape, a.ratio * cols * 4);
    cache(a.state, true);
    out(a.out, floats(tokens, a.outStride, a.cols));
  }
  void move(EntryStoreArgs &a) {
    in(a.x, floats(tokens, a.xStride, a.cols));
    in(a.weight, a.cols * 4);
    in(a.invFreq, a.dim / 2 * 4);
    cache(a.kv, true);
  }
  void move(HyperWeightsArgs &a) {
    in(a.x, floats(tokens, a.xStride, a.cols));
    in(a.scale, (a.cols == a.streams ? 1 : 3) * 4);
    in(a.base, a.cols * 4);
    out(a.out, floats(tokens, a.outStride, a.cols));
  }
  void move(HyperCollapseArgs &a) {
    in(a.x, floats(tokens, a.xStride, a.streams * a.cols));
    in(a.weights, floats(tokens, a.weightsStride, a.streams));
    out(a.out, floats(tokens, a.outStride, a.cols));
  }
  void move(HyperSpreadArgs &a) {
    int64_t weights = int64_t(a.streams) * (a.streams + 2);
    in(a.y, floats(tokens, a.yStride, a.cols));
    in(a.x, floats(tokens, a.xStride, a.streams * a.cols));
    in(a.weights, floats(tokens, a.weightsStride, weights));
    out(a.out, floats(tokens, a.outStride, a.streams * a.cols));
  }
  void move(ResidualMixArgs &a) {
    in(a.x, floats(tokens, a.xStride, a.cols));
    in(a.stack, floats(tokens, a.stackStride, a.count * a.cols));
    in(a.weight, a.cols * 4);
    out(a.out, floats(tokens, a.outStride, a.cols));
  }
  void move(ConcatArgs &a) {
    in(a.x, tokens * a.first * 4);
    in(a.y, tokens * a.second * 4);
    out(a.out, tokens * (a.first + a.second) * 4);
  }
  /// The position after the last of any sequence.
  int64_t lastPosition() const {
    int64_t last = 0;
    for (int32_t i = 0; i < step.sequenceCount; ++i)
      last = std::max<int64_t>(last, step.sequence(i).position +
                                         step.sequence(i).count);
    return last;
  }
  void move(BlockMaximaArgs &a) {
    const int64_t last = lastPosition();
    in(a.scores, floats(tokens, a.scoresStride, last * a.size / a.ratio));
    out(a.out,
        floats(tokens, a.outStride, std::max<int64_t>(last / a.ratio, 1)));
  }
  void move(KeepBlocksArgs &a) {
    const int64_t seen = lastPosition() * a.size / a.ratio;
    in(a.scores, floats(tokens, a.scoresStride, seen));
    in(a.chosen, tokens * a.topK * 4);
    out(a.out, floats(tokens, a.scoresStride, seen));
  }
  void move(GateStreamsArgs &a) {
    int64_t all = tokens * a.streams * a.cols * 4;
    in(a.q, all);
    in(a.k, all);
    in(a.value, tokens * a.cols * 4);
    out(a.out, all);
  }
  void move(ClampedMulArgs &a) {
    inPair(a.gate, a.up, a.out, tokens * a.rowsPerToken * a.cols * 4);
  }
  void move(HashRouterArgs &a) {
    in(a.logits, floats(tokens, a.stride, a.experts));
    in(a.expertScale, a.experts * 4);
    out(a.ids, tokens * a.topK * 4);
    out(a.weights, tokens * a.topK * 4);
    int32_t rows = 1 + *std::max_element(a.tokens, a.tokens + tokens);
    in(a.table, int64_t(rows) * a.topK * 4);
    in(a.tokens, tokens * 4);
  }
  void move(HeadLinearArgs &a) {
    in(a.x, floats(tokens, a.xStride, a.w.outer * (a.w.cols + a.tail)));
    weight(a.w, form.layout);
    out(a.out, floats(tokens, a.outStride, a.w.outer * (a.w.rows + a.tail)));
  }
  void move(MlaAttentionArgs &a) {
    in(a.q, floats(tokens, a.qStride, int64_t(a.heads) * (a.nope + a.rope)));
    cache(a.kv, false);
    weight(a.wk);
    weight(a.wv);
    out(a.out, floats(tokens, a.outStride, int64_t(a.heads) * a.value));
  }
  void move(RouterArgs &a) {
    in(a.logits, floats(tokens, a.stride, a.experts));
    in(a.bias, a.experts * 4);
    in(a.expertScale, a.experts * 4);
    out(a.ids, tokens * a.topK * 4);
    out(a.weights, tokens * a.topK * 4);
  }
  void move(SplitChoicesArgs &a) {
    int64_t first = tokens * (a.topK - a.last) * 4;
    in(a.ids, tokens * a.topK * 4);
    in(a.weights, tokens * a.topK * 4);
    out(a.firstIds, first);
    out(a.firstWeights, first);
    out(a.lastIds, tokens * a.last * 4);
    out(a.lastWeights, tokens * a.last * 4);
  }
  void move(ExpertGroupArgs &a) {
    in(a.ids, tokens * a.topK * 4);
    out(a.offsets, ((a.slice.count ? a.slice.count : a.experts) + 1) * 4);
    out(a.slots, tokens * a.topK * 4);
    in(a.slice.map, a.experts * 4);
  }
  void move(ExpertsLinearArgs &a) {
    act(a.act, a.actPerToken ? tokens : tokens * a.topK, a.actStride, a.w.cols);
    weight(a.w, form.layout);
    in(a.bias, a.w.outer * a.w.rows * 4);
    in(a.offsets, (a.w.outer + 1) * 4);
    in(a.slots, tokens * a.topK * 4);
    out(a.out, floats(tokens * a.topK, a.outStride, a.w.rows));
  }
  void move(ExpertsGateUpArgs &a) {
    act(a.act, tokens, a.actStride, a.gate.cols);
    weight(a.gate, form.layout);
    weight(a.up, form.layout);
    in(a.gateBias, a.gate.outer * a.gate.rows * 4);
    in(a.upBias, a.up.outer * a.up.rows * 4);
    in(a.offsets, (a.gate.outer + 1) * 4);
    in(a.slots, tokens * a.topK * 4);
    out(a.out, floats(tokens * a.topK, a.outStride, a.gate.rows));
  }
  void move(ExpertsActivationMulArgs &a) {
    in(a.gateScale, a.experts * 4);
    in(a.upScale, a.experts * 4);
    in(a.offsets, (a.experts + 1) * 4);
    in(a.slots, tokens * a.topK * 4);
    inPair(a.gate, a.up, a.out, tokens * a.topK * a.cols * 4);
  }
  void move(ExpertsCombineArgs &a) {
    in(a.y, tokens * a.topK * a.cols * 4);
    in(a.weights, tokens * a.topK * 4);
    out(a.out, tokens * a.cols * 4);
    // The map must be long enough for the largest id.
    if (a.slice.map)
      in(a.slice.map,
         (1 + *std::max_element(a.ids, a.ids + tokens * a.topK)) * 4);
    in(a.ids, tokens * a.topK * 4);
  }
  void move(CopyArgs &a) {
    int64_t bytes = tokens * a.tokenBytes + a.fixedBytes;
    in(a.x, bytes);
    out(a.out, bytes);
  }
};

template <OpCode Op>
void runTyped(const void *args, const Step &step, const cuda::GemmForm &form,
              int32_t parts, int multiprocessors, bool pinned) {
  GpuTest &test = GpuTest::get();
  Mirror mirror(*test.gpu);
  ArgsOf<Op> moved = *static_cast<const ArgsOf<Op> *>(args);
  Moved{mirror, step, form}.move(moved);
  cuda::Step onGpu = mirrorStep(step, mirror);
  cuda::LaunchContext context = contextOf(*test.gpu, step);
  context.form = form;
  context.parts = parts;
  context.pinned = pinned;
  if (multiprocessors)
    context.multiprocessors = multiprocessors;
  context.step = mirror.in(&onGpu, sizeof(onGpu));
  context.workspace =
      mirror.workspace(cuda::workspaceBytes(Op, &moved, context));
  std::vector<cuda::Launch> launches = launchesOf(Op, &moved, context);
  ASSERT_FALSE(launches.empty()) << "no kernel";
  test.run(launches);
  mirror.finish();
}
} // namespace

cuda::Step mirrorStep(const Step &step, Mirror &mirror) {
  cuda::Step onGpu{};
  onGpu.tokens = step.tokens;
  onGpu.sequences = step.sequenceCount;
  for (int32_t i = 0; i < step.sequenceCount; ++i) {
    SequenceRows s = step.sequence(i);
    int64_t pages = (int64_t(s.position) + s.count + kKvPage - 1) / kKvPage;
    onGpu.sequence[i] = {s.begin, s.count, s.position, s.state,
                         mirror.in(s.pages, pages * 4)};
  }
  return onGpu;
}

cuda::LaunchContext contextOf(Gpu &gpu, const Step &step) {
  cuda::LaunchContext context;
  // Most steps have fewer rows than their phase allows; phases for one or two
  // rows use other kernels.
  int32_t tokens = std::max(step.tokens, phase().tokens);
  context.maxTokens = tokens <= 2 ? tokens : tokens + 3;
  context.maxSequences = std::max(step.sequenceCount, phase().sequences) + 1;
  context.maxPositions = 5;
  for (int32_t i = 0; i < step.sequenceCount; ++i)
    context.maxPositions += step.sequence(i).position + step.sequence(i).count;
  context.arch = gpu.arch();
  context.multiprocessors = gpu.multiprocessors();
  return context;
}

void runOnGpu(OpCode op, const void *args, const Step &step,
              const cuda::GemmForm &form, int32_t parts, int multiprocessors,
              bool pinned) {
  switch (op) {
#define MOE_CUDA_KERNEL(name, op)                                              \
  case OpCode::op:                                                             \
    return runTyped<OpCode::op>(args, step, form, parts, multiprocessors,      \
                                pinned);
#include "kernels/Kernels.def"
  default:
    FAIL() << "only the host has kernels for op " << unsigned(op);
  }
}

Division divisionOf(OpCode op, const void *args, int32_t tokens,
                    const cuda::GemmForm &form, int multiprocessors) {
  cuda::LaunchContext context = cuda::contextOf(
      tokens, 1, 512, GpuTest::get().gpu->arch(), multiprocessors);
  context.form = form;
  for (const cuda::Launch &launch : launchesOf(op, args, context)) {
    if (launch.kernel.entry.ends_with("_tail_here"))
      return Division::InPlace;
    if (launch.kernel.entry.ends_with("_tail_sums"))
      return Division::SecondLaunch;
  }
  return Division::None;
}

void underEverySchedule(const std::function<void()> &run) {
  auto *gpu = dynamic_cast<SoftwareGpu *>(GpuTest::get().gpu.get());
  if (!gpu)
    return run();
  softgpu::SoftGpuOptions before = gpu->options();
  for (auto [schedule, landing] :
       {std::pair{softgpu::Schedule::Forward, softgpu::AsyncLanding::Late},
        {softgpu::Schedule::Reversed, softgpu::AsyncLanding::Early},
        {softgpu::Schedule::Shuffled, softgpu::AsyncLanding::Seeded}}) {
    gpu->options().schedule = schedule;
    gpu->options().asyncLanding = landing;
    run();
  }
  gpu->options() = before;
}

} // namespace moek::test
