#include "passes/moe/placement/Chain.h"

#include <algorithm>

using namespace mlir::moe;

namespace {

/// A change from one variant of a layer to one that takes more bytes.
struct Step {
  int layer; ///< -1: the embedding, -2: the head.
  unsigned to = 0;
  double saved = 0;
  int64_t bytes = 0;
  bool isDivisible = false;
};
constexpr int kEmbedding = -1, kHead = -2;

/// Whether the layers of a run have their attention on the GPU.
using HasAttention = bool;

/// Knapsacks of all runs on one GPU.
class Runs {
public:
  Runs(const Chain &chain, int gpu, const ChainLimits &limits)
      : chain(chain), gpu(chain.gpus[gpu]), limits(limits) {
    for (HasAttention attention : {false, true}) {
      unsigned base = attention ? unsigned(Chain::Attention) : 0;
      if ((base & limits.parts) != base)
        continue;
      for (int layer = 0; layer < int(chain.onHost.size()); ++layer)
        addSteps(layer, base, steps[attention]);
      add({kEmbedding, 0, 0, 0, false}, this->gpu.embedding, steps[attention]);
      add({kHead, 0, 0, 0, false}, this->gpu.head, steps[attention]);
      std::stable_sort(steps[attention].begin(), steps[attention].end(),
                       [](const Step &a, const Step &b) {
                         return a.saved * double(b.bytes) >
                                b.saved * double(a.bytes);
                       });
    }
  }

  /// Returns the seconds of the layers from `begin` to `end`, minus what
  /// embedding and head save. `path`, if any, receives the variants.
  double secondsOf(HasAttention attention, int begin, int end, bool withHead,
                   ChainPath *path = nullptr, int number = 0) {
    unsigned base = attention ? unsigned(Chain::Attention) : 0;
    constexpr double never = std::numeric_limits<double>::infinity();
    if ((base & limits.parts) != base)
      return never;
    double seconds = 0;
    int64_t bytes = 0;
    for (int layer = begin; layer < end; ++layer) {
      const ChainItem &first = gpu.layers[layer][base];
      if (!first.isAllowed)
        return never;
      seconds += priceOf(first);
      bytes += first.bytes;
    }
    double without =
        fill(attention, begin, end, withHead, false, bytes, nullptr, number);
    double with = limits.parts & Chain::Experts
                      ? fill(attention, begin, end, withHead, true, bytes,
                             nullptr, number)
                      : never;
    if (path && std::min(without, with) < never)
      fill(attention, begin, end, withHead, with < without, bytes, path,
           number);
    return seconds + std::min(without, with);
  }

private:
  double priceOf(const ChainItem &item) const {
    return item.seconds - limits.perHostByte * double(item.bytes);
  }

  void add(Step step, const ChainItem &item, std::vector<Step> &into) const {
    step.saved = item.seconds + limits.perHostByte * double(item.bytes);
    step.bytes = item.bytes;
    if (item.isAllowed && step.saved > 0)
      into.push_back(step);
  }

  /// Adds the changes that lead from a layer's base to its fastest variant,
  /// each saving less per byte than the one before: the lower convex hull of
  /// the variants.
  void addSteps(int layer, unsigned base, std::vector<Step> &into) const {
    unsigned at = base;
    const Chain::Layer &variants = gpu.layers[layer];
    while (variants[base].isAllowed) {
      std::optional<Step> best;
      for (unsigned to = 0; to < Chain::kVariants; ++to) {
        // What is on the GPU stays there, and attention is the run's.
        if ((to & at) != at || to == at || ((to ^ base) & Chain::Attention) ||
            (to & limits.parts) != to || !variants[to].isAllowed)
          continue;
        Step step{layer, to, priceOf(variants[at]) - priceOf(variants[to]),
                  variants[to].bytes - variants[at].bytes,
                  (to & ~at & Chain::Experts) && (base & Chain::Attention) &&
                      chain.isDivisible[layer]};
        if (step.saved > 0 && (!best || step.saved * double(best->bytes) >
                                            best->saved * double(step.bytes)))
          best = step;
      }
      if (!best)
        return;
      into.push_back(*best);
      at = best->to;
    }
  }

  /// Returns what the steps save that fit, as a negative number, if the base of
  /// all layers takes `bytes`.
  double fill(HasAttention attention, int begin, int end, bool withHead,
              bool withExperts, int64_t bytes, ChainPath *path, int number) {
    int64_t left = gpu.room[withExperts] - bytes;
    if (left < 0)
      return std::numeric_limits<double>::infinity();
    const unsigned base = attention ? unsigned(Chain::Attention) : 0;
    if (path)
      for (int layer = begin; layer < end; ++layer) {
        path->gpus[layer] = number;
        path->parts[layer] = base;
      }
    blocked.assign(chain.onHost.size(), false);
    double saved = 0;
    for (const Step &step : steps[attention]) {
      if (step.layer >= 0
              ? step.layer < begin || step.layer >= end || blocked[step.layer]
          : step.layer == kHead ? !withHead
                                : begin > 0 || end == 0)
        continue;
      if (!withExperts && (step.to & Chain::Experts)) {
        blocked[step.layer] = true;
        continue;
      }
      if (step.bytes > left) {
        if (step.isDivisible)
          return -(saved + step.saved * double(left) / double(step.bytes));
        if (step.layer >= 0)
          blocked[step.layer] = true;
        continue;
      }
      left -= step.bytes;
      saved += step.saved;
      if (!path)
        continue;
      if (step.layer >= 0)
        path->parts[step.layer] = step.to;
      else
        (step.layer == kHead ? path->head : path->embedding) = number;
    }
    return -saved;
  }

  const Chain &chain;
  const Chain::Gpu &gpu;
  const ChainLimits &limits;
  std::vector<Step> steps[2];
  std::vector<bool> blocked;
};

/// How the fastest way to a state came there.
struct Origin {
  double seconds = std::numeric_limits<double>::infinity();
  int begin = -1; ///< First layer of the run, or -1: one layer on the host.
  int gpus = 0, device = 0; ///< Of the state before.
  bool head = false, attention = false, withHead = false;
};

} // namespace

ChainPath mlir::moe::fastestPath(const Chain &chain,
                                 const ChainLimits &limits) {
  const int layers = int(chain.onHost.size()), gpus = int(chain.gpus.size());
  // State: the GPUs that have had their turn, the layers that have a variant,
  // whether a GPU has the head, and the device with the last layer's result.
  const int devices = gpus + 1, host = gpus;
  auto indexOf = [&](int turn, int layer, bool head, int device) {
    return ((size_t(turn) * size_t(layers + 1) + size_t(layer)) * 2 + head) *
               size_t(devices) +
           size_t(device);
  };
  std::vector<Origin> best(indexOf(gpus, layers, true, host) + 1);
  best[indexOf(0, 0, false, host)].seconds = 0;
  auto relax = [&](size_t state, Origin origin) {
    if (origin.seconds < best[state].seconds)
      best[state] = origin;
  };
  std::vector<Runs> runs;
  for (int gpu = 0; gpu < gpus; ++gpu)
    runs.emplace_back(chain, gpu, limits);
  // Seconds of a run by GPU, first layer, end, attention and head.
  for (int turn = 0; turn <= gpus; ++turn)
    for (int layer = 0; layer <= layers; ++layer) {
      const bool hasRuns = turn < gpus && limits.gpus[turn];
      std::vector<std::array<std::array<double, 2>, 2>> seconds;
      for (int end = layer; hasRuns && end <= layers; ++end) {
        seconds.emplace_back();
        for (bool attention : {false, true})
          for (bool withHead : {false, true})
            seconds.back()[attention][withHead] =
                end == layer && !withHead
                    ? 0
                    : runs[turn].secondsOf(attention, layer, end, withHead);
      }
      for (bool head : {false, true})
        for (int device = 0; device < devices; ++device) {
          const size_t from = indexOf(turn, layer, head, device);
          const double before = best[from].seconds;
          if (before == std::numeric_limits<double>::infinity())
            continue;
          if (layer < layers)
            relax(indexOf(turn, layer + 1, head, host),
                  {before + chain.handOver[device][host] + chain.onHost[layer],
                   -1, turn, device, head, false, false});
          if (turn == gpus)
            continue;
          // The GPU has no layers.
          relax(indexOf(turn + 1, layer, head, device),
                {before, layer, turn, device, head, false, false});
          for (size_t i = 0; i < seconds.size(); ++i)
            for (bool attention : {false, true})
              for (bool withHead : {false, true}) {
                if ((withHead && head) || (i == 0 && !withHead))
                  continue;
                const int to = i == 0 ? device : attention ? turn : host;
                relax(indexOf(turn + 1, layer + int(i), head || withHead, to),
                      {before + chain.handOver[device][to] +
                           seconds[i][attention][withHead],
                       layer, turn, device, head, attention, withHead});
              }
        }
    }

  ChainPath path;
  path.gpus.assign(size_t(layers), -1);
  path.parts.assign(size_t(layers), 0);
  int turn = gpus, layer = layers, device = host;
  bool head = false;
  for (bool withHead : {false, true})
    for (int last = 0; last < devices; ++last) {
      double seconds = best[indexOf(gpus, layers, withHead, last)].seconds +
                       chain.outside[last];
      if (seconds < path.seconds) {
        path.seconds = seconds;
        head = withHead;
        device = last;
      }
    }
  while (turn > 0 || layer > 0) {
    const Origin origin = best[indexOf(turn, layer, head, device)];
    if (origin.begin < 0) {
      --layer;
    } else {
      if (layer > origin.begin || origin.withHead)
        runs[origin.gpus].secondsOf(origin.attention, origin.begin, layer,
                                    origin.withHead, &path, origin.gpus);
      turn = origin.gpus;
      layer = origin.begin;
    }
    head = origin.head;
    device = origin.device;
  }
  return path;
}
