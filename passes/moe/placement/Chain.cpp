#include "passes/moe/placement/Chain.h"

#include <algorithm>
#include <span>

using namespace mlir::moe;

namespace mlir::moe {

/// A change from one variant of a layer to one that takes more bytes.
struct ChainStep {
  int layer; ///< -1: the embedding, -2: the head.
  unsigned from = 0, to = 0;
  double saved = 0;
  int64_t bytes = 0;
  /// What all experts save and take if the step is left out and the layer is
  /// divided instead; nothing if it cannot be.
  double dividedSaved = 0;
  int64_t dividedBytes = 0;
};
constexpr int kEmbedding = -1, kHead = -2;

/// Whether the layers of a run have their attention on the GPU.
using HasAttention = bool;

/// Knapsacks of all runs on one GPU.
class ChainRuns {
public:
  ChainRuns(const Chain &chain, int gpu, const ChainLimits &limits)
      : chain(chain), gpu(chain.gpus[gpu]), limits(limits) {
    for (HasAttention attention : {false, true}) {
      unsigned base = attention ? unsigned(Chain::Attention) : 0;
      if ((base & limits.parts) != base)
        continue;
      // Among layers that save alike, the last ones come first.
      for (int layer = int(chain.onHost.size()) - 1; layer >= 0; --layer)
        addSteps(layer, base, steps[attention]);
      add({kEmbedding}, this->gpu.embedding, steps[attention]);
      add({kHead}, this->gpu.head, steps[attention]);
      std::stable_sort(steps[attention].begin(), steps[attention].end(),
                       [](const ChainStep &a, const ChainStep &b) {
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

  void add(ChainStep step, const ChainItem &item,
           std::vector<ChainStep> &into) const {
    step.saved = item.seconds + limits.perHostByte * double(item.bytes);
    step.bytes = item.bytes;
    if (item.isAllowed && step.saved > 0)
      into.push_back(step);
  }

  /// Adds the changes that lead from a layer's base to its fastest variant,
  /// each saving less per byte than the one before: the lower convex hull of
  /// the variants.
  void addSteps(int layer, unsigned base, std::vector<ChainStep> &into) const {
    unsigned at = base;
    const Chain::Layer &variants = gpu.layers[layer];
    while (variants[base].isAllowed) {
      std::optional<ChainStep> best;
      for (unsigned to = 0; to < Chain::kVariants; ++to) {
        // Attention is the run's.
        if (((to ^ base) & Chain::Attention) || (to & limits.parts) != to ||
            !variants[to].isAllowed || variants[to].bytes < variants[at].bytes)
          continue;
        ChainStep step{layer, at, to,
                       priceOf(variants[at]) - priceOf(variants[to]),
                       variants[to].bytes - variants[at].bytes};
        if (step.saved > 0 && (!best || step.saved * double(best->bytes) >
                                            best->saved * double(step.bytes)))
          best = step;
      }
      if (!best)
        return;
      const ChainItem &all = variants[at | Chain::Experts];
      if (chain.isDivisible[layer] && (base & Chain::Attention) &&
          !(at & Chain::Experts) && all.isAllowed) {
        best->dividedSaved = priceOf(variants[at]) - priceOf(all);
        best->dividedBytes = all.bytes - variants[at].bytes;
      }
      into.push_back(*best);
      at = best->to;
    }
  }

  /// Returns what the best choice of steps saves, as a negative number, if the
  /// base of all layers takes `bytes`.
  double fill(HasAttention attention, int begin, int end, bool withHead,
              bool withExperts, int64_t bytes, ChainPath *path, int number) {
    const int64_t left = gpu.room[withExperts] - bytes;
    if (left < 0)
      return std::numeric_limits<double>::infinity();
    open.clear();
    double whole = 0;
    for (const ChainStep &step : steps[attention])
      if (step.layer >= 0 ? step.layer >= begin && step.layer < end &&
                                (withExperts || !(step.to & Chain::Experts))
          : step.layer == kHead ? withHead
                                : begin == 0 && end > 0) {
        open.push_back(&step);
        whole += step.saved;
      }
    blocked.assign(chain.onHost.size(), false);
    best = -1;
    nodes = 0;
    // A run of many layers has small steps, so that the first descent is close.
    mostNodes = int(open.size() + 4096 / (open.size() + 1));
    mayDivide = withExperts;
    least = boundOf(0, left) - kTolerance * whole;
    taken.clear();
    leftOut.clear();
    choose(0, left, 0);
    if (!path)
      return -best;
    for (int layer = begin; layer < end; ++layer) {
      path->gpus[layer] = number;
      path->parts[layer] = attention ? unsigned(Chain::Attention) : 0;
    }
    for (const ChainStep &step : bestTaken)
      if (step.layer >= 0)
        path->parts[step.layer] = step.to;
      else
        (step.layer == kHead ? path->head : path->embedding) = number;
    return -best;
  }

  bool isDivisible(const ChainStep &step) const {
    return mayDivide && step.dividedBytes > 0;
  }

  bool isBlocked(const ChainStep &step) const {
    return step.layer >= 0 && blocked[step.layer];
  }

  /// Returns the most that steps from number `at` on can save, if any could be
  /// divided.
  double boundOf(size_t at, int64_t left) const {
    double saved = 0;
    for (; at < open.size(); ++at) {
      const ChainStep &step = *open[at];
      if (isBlocked(step))
        continue;
      if (step.bytes > left)
        return saved + step.saved * double(left) / double(step.bytes);
      left -= step.bytes;
      saved += step.saved;
    }
    return saved;
  }

  /// Returns the most that one of the divisible steps that were left out saves,
  /// with as many of its experts as fit.
  double divided(int64_t left) const {
    double most = 0;
    for (const ChainStep *step : leftOut)
      most = std::max(
          most, step->dividedSaved *
                    std::min(1., double(left) / double(step->dividedBytes)));
    return most;
  }

  /// Returns the changes that lead from the layer's variant before `step` to
  /// others that take fewer bytes than the step.
  std::vector<ChainStep> smallerThan(const ChainStep &step) const {
    std::vector<ChainStep> smaller;
    const Chain::Layer &variants = gpu.layers[step.layer];
    const ChainItem &at = variants[step.from];
    for (unsigned to = 0; to < Chain::kVariants; ++to) {
      ChainStep other{step.layer, step.from, to,
                      priceOf(at) - priceOf(variants[to]),
                      variants[to].bytes - at.bytes};
      if (variants[to].isAllowed && !((to ^ step.from) & Chain::Attention) &&
          (to & limits.parts) == to && (mayDivide || !(to & Chain::Experts)) &&
          other.saved > 0 && other.bytes >= 0 && other.bytes < step.bytes)
        smaller.push_back(other);
    }
    return smaller;
  }

  /// Counts a node; returns whether the search ends.
  bool isDone() { return best >= least || ++nodes > mostNodes; }

  void take(size_t at, int64_t left, double saved, const ChainStep &step) {
    taken.push_back(step);
    choose(at + 1, left - step.bytes, saved + step.saved);
    taken.pop_back();
  }

  /// Branch and bound over the steps from number `at` on: takes a step if it
  /// fits, then tries without it. Almost always the first descent is the best,
  /// since it ends with experts that are divided.
  void choose(size_t at, int64_t left, double saved) {
    if (isDone())
      return;
    while (at < open.size() && isBlocked(*open[at]))
      ++at;
    const ChainStep *step = at < open.size() ? open[at] : nullptr;
    const bool fits = step && step->bytes <= left;
    if (!step || (!fits && isDivisible(*step))) {
      if (step)
        leftOut.push_back(step);
      if (double all = saved + divided(left); all > best) {
        best = all;
        bestTaken = taken;
      }
      if (!step)
        return;
      leftOut.pop_back();
    }
    if (fits)
      take(at, left, saved, *step);
    if (isDivisible(*step))
      leftOut.push_back(step);
    if (step->layer >= 0) {
      blocked[step->layer] = true;
      if (!fits)
        for (const ChainStep &smaller : smallerThan(*step))
          if (smaller.bytes <= left)
            take(at, left, saved, smaller);
    }
    if (!isDone() && saved + boundOf(at + 1, left) + divided(left) > best)
      choose(at + 1, left, saved);
    if (step->layer >= 0)
      blocked[step->layer] = false;
    if (isDivisible(*step))
      leftOut.pop_back();
  }

  /// The search ends this close to the bound, as a share of what all steps
  /// save.
  static constexpr double kTolerance = 5e-4;

  const Chain &chain;
  const Chain::Gpu &gpu;
  const ChainLimits &limits;
  std::vector<ChainStep> steps[2];
  std::vector<bool> blocked; ///< Layers whose further steps are left out.
  std::vector<const ChainStep *> open, leftOut;
  std::vector<ChainStep> taken, bestTaken;
  double best = 0, least = 0;
  int nodes = 0, mostNodes = 0;
  bool mayDivide = false; ///< Experts may be on the GPU.
};

} // namespace mlir::moe

namespace {
/// How the fastest way to a state came there.
struct Origin {
  double seconds = std::numeric_limits<double>::infinity();
  int begin = -1; ///< First layer of the run, or -1: one layer on the host.
  int gpus = 0, device = 0; ///< Of the state before.
  bool head = false, attention = false, withHead = false;
};

} // namespace

struct ChainPaths::Tables {
  std::vector<ChainRuns> runs; ///< By GPU.
  /// Seconds by attention and head of runs, by first layer and length; those of
  /// a GPU that is like an earlier one are the earlier one's.
  using Seconds = std::array<std::array<double, 2>, 2>;
  std::vector<std::vector<std::vector<Seconds>>> seconds;
  std::vector<int> like;
};

ChainPaths::ChainPaths(const Chain &chain, ChainLimits limits)
    : chain(chain), limits(limits), tables(std::make_unique<Tables>()) {
  tables->seconds.resize(chain.gpus.size());
  for (int gpu = 0; gpu < int(chain.gpus.size()); ++gpu) {
    tables->runs.emplace_back(chain, gpu, this->limits);
    tables->like.push_back(
        int(std::find(chain.gpus.begin(), chain.gpus.end(), chain.gpus[gpu]) -
            chain.gpus.begin()));
  }
}

ChainPaths::~ChainPaths() = default;

ChainPath ChainPaths::fastest(const std::vector<bool> &usable) {
  std::vector<ChainRuns> &runs = tables->runs;
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
  auto secondsFrom = [&](int gpu, int begin) {
    const int like = tables->like[gpu];
    auto &known = tables->seconds[like];
    known.resize(size_t(layers + 1));
    std::vector<Tables::Seconds> &seconds = known[begin];
    for (int end = begin + int(seconds.size()); end <= layers; ++end) {
      seconds.emplace_back();
      for (bool attention : {false, true})
        for (bool withHead : {false, true})
          seconds.back()[attention][withHead] =
              end == begin && !withHead
                  ? 0
                  : runs[like].secondsOf(attention, begin, end, withHead);
    }
    return std::span<const Tables::Seconds>(seconds);
  };
  for (int turn = 0; turn <= gpus; ++turn)
    for (int layer = 0; layer <= layers; ++layer) {
      std::span<const Tables::Seconds> seconds;
      if (turn < gpus && usable[turn])
        seconds = secondsFrom(turn, layer);
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
