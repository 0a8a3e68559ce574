// Router: scores, selection and mixing weights of experts; with MOE_HASHED the
// op is HashRouter, whose choices come from a row of a table. A block of one
// warp has one token. In double, as on the CPU: in float all sigmoids above 17
// are equal, and both devices must choose alike. A GeForce computes two lanes
// in double per cycle, sixteen cycles for an instruction of a warp, so that
// ranks are compared as integers, and each choice's weight is computed by one
// lane.

#include "kernels/cuda/Softplus.cuh"

// moek::Scoring
enum {
  kSoftmax = 1,
  kSigmoid = 2,
  kSoftmaxTopK = 3,
  kSqrtSoftplus = 4,
  kSparseMixer = 5
};

extern __shared__ double shared[]; // score, rank [experts], groupRank [groups]

/// The lowest rank of an expert that may be chosen. Dropped experts have minus
/// infinity.
MOE_DEVICE double lowest() { return -1.7976931348623157e308; }
MOE_DEVICE double ordered(double x) { return x >= lowest() ? x : lowest(); }

MOE_DEVICE double warpSum(double x) {
#pragma unroll
  for (int i = 16; i > 0; i /= 2)
    x += __shfl_xor_sync(kAllLanes, x, i);
  return x;
}

#ifdef MOE_HASHED
using Routing = HashRouterArgs;

MOE_DEVICE double biasOf(const Routing &, int) { return 0; }

/// Returns whether `chosen` are valid and distinct experts.
MOE_DEVICE bool isChoice(const int *chosen, const Routing &a) {
  bool isValid = true;
  for (int j = 0; j < a.topK; ++j) {
    isValid &= chosen[j] >= 0 && chosen[j] < a.experts;
    for (int i = 0; i < j; ++i)
      isValid &= chosen[i] != chosen[j];
  }
  return isValid;
}
#else
using Routing = RouterArgs;

MOE_DEVICE double biasOf(const Routing &a, int e) {
  return a.bias ? double(a.bias[e]) : 0;
}

MOE_DEVICE double dropped() { return __longlong_as_double(0xfff0000000000000); }

/// An integer with the order of doubles that are not NaN; equal ones have equal
/// keys, also zeros of both signs.
MOE_DEVICE i64 keyOf(double x) {
  i64 bits = __double_as_longlong(x + 0.0);
  return bits ^ (bits >> 63 & 0x7fffffffffffffff);
}
MOE_DEVICE double rankOf(i64 key) {
  return __longlong_as_double(key ^ (key >> 63 & 0x7fffffffffffffff));
}
/// The key of what was taken: of no double.
constexpr i64 kTaken = -0x7fffffffffffffff - 1;

/// The best of a lane's candidates: number e has lane e % 32.
struct Best {
  i64 key = kTaken;
  int index = -1;
};
/// `keys` of `count` candidates. Of equal ones the first is the best.
MOE_DEVICE Best bestOfLane(const i64 *keys, int count) {
  Best best;
  for (int e = threadIdx.x; e < count; e += 32)
    if (keys[e] > best.key)
      best = {keys[e], e};
  return best;
}
MOE_DEVICE int most(int x) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(kAllLanes, x);
#else
#pragma unroll
  for (int i = 16; i > 0; i /= 2)
    x = max(x, __shfl_xor_sync(kAllLanes, x, i));
  return x;
#endif
}
/// Returns the index of the best candidate of all lanes and takes it: its key
/// becomes kTaken. See kernels/cpu/Router.h.
MOE_DEVICE int takeBest(Best &own, i64 *keys, int count) {
  // The high halves of keys, then the low ones of those that are largest, in an
  // order of signed numbers, then the lowest index.
  int high = int(own.key >> 32), low = int(u32(own.key) ^ 0x80000000);
  int highest = most(high);
  bool isFirst = high == highest;
  int lowest = most(isFirst ? low : -0x7fffffff - 1);
  isFirst = isFirst && low == lowest && own.index >= 0;
  int best = -1 - most(isFirst ? -1 - own.index : -0x7fffffff - 1);
  if (own.index == best) {
    keys[best] = kTaken;
    own = bestOfLane(keys, count);
  }
  __syncwarp();
  return best;
}

/// The key of a group: its best expert or, if two count, the sum of two.
MOE_DEVICE i64 groupKey(const Routing &a, const i64 *rank, int begin, int end) {
  i64 first = keyOf(dropped()), second = first;
  for (int e = begin; e < end; ++e)
    if (rank[e] > first) {
      second = first;
      first = rank[e];
    } else if (rank[e] > second) {
      second = rank[e];
    }
  if (a.groupBest <= 1)
    return first;
  return keyOf(ordered(rankOf(first) + rankOf(second)));
}

MOE_DEVICE void dropGroups(const Routing &a, i64 *rank, i64 *groupRank) {
  int lane = threadIdx.x, size = a.experts / a.groups;
  for (int g = lane; g < a.groups; g += 32)
    groupRank[g] = groupKey(a, rank, g * size, (g + 1) * size);
  __syncwarp();
  Best own = bestOfLane(groupRank, a.groups);
  for (int i = 0; i < a.groupsUsed; ++i)
    takeBest(own, groupRank, a.groups);
  for (int e = lane; e < a.groups * size; e += 32)
    if (groupRank[e / size] != kTaken)
      rank[e] = keyOf(dropped());
  __syncwarp();
}
#endif

/// score[ids[j]] = the weight of choice j (kernels/cpu/Router.h): its softmax
/// over the experts that are neither chosen before nor far below it.
MOE_DEVICE void mixSparsely(const float *logits, const int *ids, int topK,
                            int experts, double *score) {
  for (int j = 0; j < topK; ++j) {
    double best = logits[ids[j]], sum = 0;
    for (int e = threadIdx.x; e < experts; e += 32) {
      double x = logits[e], size = x < 0 ? -x : x;
      bool isLeft = true;
      for (int i = 0; i < j; ++i)
        isLeft &= ids[i] != e;
      bool isFar = (best - x) / (size > best ? size : best) > 0.02;
      if (isLeft && !isFar)
        sum += exp(x - best);
    }
    sum = warpSum(sum);
    if (threadIdx.x == 0)
      score[ids[j]] = 1 / sum;
    __syncwarp();
  }
}

MOE_KERNEL(32, 1, Routing) {
  int t = blockIdx.x, lane = threadIdx.x;
  if (t >= a.step->tokens)
    return;
  const float *logits = a.logits + t * a.stride;
  int *ids = a.ids + i64(t) * a.topK;
  float *weights = a.weights + i64(t) * a.topK;
  double *score = shared;

#ifndef MOE_HASHED
  i64 *rank = (i64 *)(score + a.experts);
#endif
  float largest = -infinity();
  double poison = 0, sum = 0; // NaN if a logit or a bias is not finite.
  for (int e = lane; e < a.experts; e += 32) {
    poison += 0 * (double(logits[e]) + biasOf(a, e));
    largest = logits[e] > largest ? logits[e] : largest;
  }
  largest = warpMax(largest);
  poison = warpSum(poison);
  for (int e = lane; e < a.experts; e += 32) {
    double x = logits[e];
    score[e] = a.scoring == kSigmoid        ? 1 / (1 + exp(-x))
               : a.scoring == kSoftmax      ? exp(x - double(largest))
               : a.scoring == kSqrtSoftplus ? sqrt(softplus(x))
                                            : x;
    sum += score[e];
  }
  if (a.scoring == kSoftmax)
    sum = warpSum(sum);
  for (int e = lane; e < a.experts; e += 32) {
    if (a.scoring == kSoftmax)
      score[e] /= sum;
#ifndef MOE_HASHED
    rank[e] = keyOf(ordered(score[e] + biasOf(a, e)));
#endif
  }
  __syncwarp();

#ifdef MOE_HASHED
  const int *row = a.table + i64(a.tokens[t]) * a.topK;
  bool isValid = isChoice(row, a);
  poison += isValid ? 0 : double(nanValue());
  for (int j = lane; j < a.topK; j += 32)
    ids[j] = isValid ? row[j] : j;
#else
  if (a.groups > 1)
    dropGroups(a, rank, rank + a.experts);
  Best own = bestOfLane(rank, a.experts);
  for (int j = 0; j < a.topK; ++j) {
    int best = takeBest(own, rank, a.experts);
    if (lane == 0)
      ids[j] = best;
  }
#endif
  __syncwarp();
  if (a.scoring == kSparseMixer)
    mixSparsely(logits, ids, a.topK, a.experts, score);

  // With SoftmaxTopK and a bias, the first choice may not have the largest
  // score.
  double total = 0, first = score[ids[0]];
  for (int j = 1; j < a.topK; ++j)
    first = score[ids[j]] > first ? score[ids[j]] : first;
  // Choice j is lane j % 32's. All lanes execute this, so that the warp stays
  // converged afterwards (Fused.cuh).
  auto scoreOf = [&](int j) {
    double x = score[ids[j < a.topK ? j : 0]];
    return a.scoring == kSoftmaxTopK ? exp(x - first) : x;
  };
  for (int begin = 0; begin < a.topK; begin += 32) {
    double x = scoreOf(begin + lane);
    for (int j = begin; j < min(a.topK, begin + 32); ++j)
      total += __shfl_sync(kAllLanes, x, j - begin);
  }
  double factor = a.scoring == kSoftmaxTopK ? 1 / total : 1;
  if (a.normalize)
    factor = a.scoring == kSoftmaxTopK ? factor : 1 / total;
  for (int begin = 0; begin < a.topK; begin += 32) {
    int j = begin + lane;
    double x = scoreOf(j);
    if (j >= a.topK)
      continue;
    double scale = a.expertScale ? double(a.expertScale[ids[j]]) : 1;
    weights[j] = float(x * factor * double(a.scale) * scale + poison);
  }
  __syncwarp();
}
