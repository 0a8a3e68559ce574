// Router: scores, selection and mixing weights of experts; with MOE_HASHED the
// op is HashRouter, whose choices come from a row of a table. A block has one
// token, a thread an expert (or every blockDim.x-th). In double, as on the CPU:
// in float all sigmoids above 17 are equal, and both devices must choose alike.
// A GeForce computes two lanes in double per cycle, so that ranks are compared
// as integers. A thread counts the experts that are better than its own: that
// is the place of its own among the choices, with no step after another, where
// looking for the best one after the other takes 300 cycles for each choice.

#include "kernels/cuda/Softplus.cuh"

// moek::Scoring
enum {
  kSoftmax = 1,
  kSigmoid = 2,
  kSoftmaxTopK = 3,
  kSqrtSoftplus = 4,
  kSparseMixer = 5
};

// score [experts], rank [experts, rounded up to kAtOnce], groupRank [groups],
// then the choices as integers [topK]
extern __shared__ double shared[];

/// Ranks that a thread loads before it compares them.
constexpr int kAtOnce = 8;

/// The lowest rank of an expert that may be chosen, which NaN and minus
/// infinity become by ordered(). Dropped experts have minus infinity.
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

/// Returns an integer with the order of doubles that are not NaN. Equal
/// doubles, also zeros of both signs, have equal keys. rankOf() is the inverse.
MOE_DEVICE i64 keyOf(double x) {
  i64 bits = __double_as_longlong(x + 0.0);
  return bits ^ (bits >> 63 & 0x7fffffffffffffff);
}
MOE_DEVICE double rankOf(i64 key) {
  return __longlong_as_double(key ^ (key >> 63 & 0x7fffffffffffffff));
}
/// A key below that of every number, with which the array of keys is filled up.
constexpr i64 kBelowAll = -0x7fffffffffffffff - 1;

/// Returns how many neighbouring lanes compare an expert's key with the keys of
/// all experts together: at most eight, if the block has enough threads.
MOE_DEVICE u32 lanesOfExpert(u32 experts, u32 threads) {
  u32 lanes = 1;
  while (lanes < 8 && 2 * lanes * experts <= threads)
    lanes *= 2;
  return lanes;
}

/// Returns how many of the first `count` keys, a multiple of kAtOnce, are
/// better than that of expert `e`. Of equal keys the first is the best. `lanes`
/// neighbouring lanes call it with the same e and get the same result; all
/// lanes of a warp call it.
MOE_DEVICE int betterThan(const i64 *keys, int count, int e, u32 lanes) {
  i64 own = keys[e];
  int better = 0;
  for (int at = threadIdx.x % lanes * kAtOnce; at < count;
       at += lanes * kAtOnce) {
    i64 x[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      x[i] = keys[at + i];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      better += x[i] + (at + i < e) >
                own; // No key is the largest integer, so + 1 does not overflow.
  }
  for (u32 i = 1; i < lanes; i *= 2)
    better += __shfl_xor_sync(kAllLanes, better, i);
  return better;
}
MOE_DEVICE int wholeCount(int count) {
  return (count + kAtOnce - 1) / kAtOnce * kAtOnce;
}

/// Returns the key by which a group is ranked: that of its best expert or, if
/// `groupBest` is two, of the sum of its best two.
MOE_DEVICE i64 groupKey(const Routing &a, const i64 *rank, int begin, int end) {
  i64 first = keyOf(dropped()), second = first;
#pragma unroll 8
  for (int e = begin; e < end; ++e) {
    i64 x = rank[e], less = x < first ? x : first;
    second = less > second ? less : second;
    first = x > first ? x : first;
  }
  if (a.groupBest <= 1)
    return first;
  return keyOf(ordered(rankOf(first) + rankOf(second)));
}

/// Drops the experts of all groups but the `groupsUsed` best ones. All threads
/// of the block call it.
MOE_DEVICE void dropGroups(const Routing &a, i64 *rank, i64 *groupRank,
                           u32 thread, u32 threads) {
  int size = a.experts / a.groups;
  for (int g = thread; g < a.groups; g += threads)
    groupRank[g] = groupKey(a, rank, g * size, (g + 1) * size);
  __syncthreads();
  for (int e = thread; e < a.groups * size; e += threads) {
    i64 own = groupRank[e / size];
    int better = 0;
    for (int g = 0; g < a.groups; ++g)
      better += groupRank[g] + (g < e / size) > own;
    if (better >= a.groupsUsed)
      rank[e] = keyOf(dropped());
  }
  __syncthreads();
}
#endif

/// score[ids[j]] = the weight of choice j (kernels/cpu/Router.h): its softmax
/// over the experts that no earlier choice took and whose logit is not far
/// below its own. A whole warp calls it.
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

/// Sums and maxima of a block's warps.
struct Partial {
  double sum[32];
  float most[32];
  int isBroken[32];
};

MOE_KERNEL(1024, 1, Routing) {
  __shared__ Partial partial;
  int t = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int warps = blockDim.x / 32;
  if (t >= a.step->tokens)
    return;
  const float *logits = a.logits + t * a.stride;
  double *score = shared;
#ifdef MOE_HASHED
  int *chosen = (int *)(score + a.experts);
#else
  i64 *rank = (i64 *)(score + a.experts);
  i64 *groupRank = rank + wholeCount(a.experts);
  int *chosen = (int *)(groupRank + a.groups);
#endif
  float largest = -infinity();
  bool isBroken = false; // Whether a logit or a bias is not finite.
  for (int e = threadIdx.x; e < a.experts; e += blockDim.x) {
    float x = logits[e];
    isBroken |= !isFinite(x) || !isFinite(float(biasOf(a, e)));
    largest = x > largest ? x : largest;
  }
  largest = warpMax(largest);
  isBroken = __any_sync(kAllLanes, isBroken);
  if (lane == 0)
    partial.most[warp] = largest, partial.isBroken[warp] = isBroken;
  __syncthreads();
  for (int w = 0; w < warps; ++w) {
    largest = fmaxf(largest, partial.most[w]);
    isBroken |= partial.isBroken[w] != 0;
  }
  double sum = 0;
  for (int e = threadIdx.x; e < a.experts; e += blockDim.x) {
    double x = logits[e];
    score[e] = a.scoring == kSigmoid        ? 1 / (1 + exp(-x))
               : a.scoring == kSoftmax      ? exp(x - double(largest))
               : a.scoring == kSqrtSoftplus ? sqrt(softplus(x))
                                            : x;
    sum += score[e];
  }
  if (a.scoring == kSoftmax) {
    // Warps without experts would add zeros, in double.
    const bool hasExperts = warp * 32 < a.experts;
    if (hasExperts) {
      sum = warpSum(sum);
      if (lane == 0)
        partial.sum[warp] = sum;
    }
    __syncthreads();
    sum = 0;
    if (hasExperts)
      for (int w = 0; w < warps && w * 32 < a.experts; ++w)
        sum += partial.sum[w];
  }
  for (int e = threadIdx.x; e < a.experts; e += blockDim.x) {
    if (a.scoring == kSoftmax)
      score[e] /= sum;
#ifndef MOE_HASHED
    rank[e] = keyOf(ordered(score[e] + biasOf(a, e)));
#endif
  }

#ifdef MOE_HASHED
  const int *row = a.table + i64(a.tokens[t]) * a.topK;
  bool isValid = isChoice(row, a);
  isBroken |= !isValid;
  for (int j = threadIdx.x; j < a.topK; j += blockDim.x)
    chosen[j] = isValid ? row[j] : j;
#else
  for (int e = a.experts + threadIdx.x; e < wholeCount(a.experts);
       e += blockDim.x)
    rank[e] = kBelowAll;
  __syncthreads();
  if (a.groups > 1)
    dropGroups(a, rank, groupRank, threadIdx.x, blockDim.x);
  const u32 lanes = lanesOfExpert(a.experts, blockDim.x);
  for (int first = 0; first < a.experts; first += blockDim.x / lanes) {
    int e = first + threadIdx.x / lanes;
    int place =
        betterThan(rank, wholeCount(a.experts), min(e, a.experts - 1), lanes);
    if (e < a.experts && place < a.topK && threadIdx.x % lanes == 0)
      chosen[place] = e;
  }
#endif
  __syncthreads();

  // The first warp mixes. Choice j is lane j % 32's.
  if (warp == 0) {
    if (a.scoring == kSparseMixer)
      mixSparsely(logits, chosen, a.topK, a.experts, score);
    auto scoreOf = [&](int j) {
      return score[chosen[j < a.topK ? j : a.topK - 1]];
    };
    // With a bias, the first choice may not have the largest score.
    double first = 0;
    if (a.scoring == kSoftmaxTopK) {
      first = scoreOf(0);
      for (int j = 1; j < a.topK; ++j)
        first = scoreOf(j) > first ? scoreOf(j) : first;
    }
    double total = 0;
    for (int begin = 0; begin < a.topK; begin += 32) {
      double x = scoreOf(begin + lane);
      x = a.scoring == kSoftmaxTopK ? exp(x - first) : x;
      total += warpSum(begin + lane < a.topK ? x : 0);
    }
    double factor = a.scoring == kSoftmaxTopK || a.normalize ? 1 / total : 1;
    for (int j = lane; j < a.topK; j += 32) {
      double x = scoreOf(j);
      x = a.scoring == kSoftmaxTopK ? exp(x - first) : x;
      double scale = a.expertScale ? double(a.expertScale[chosen[j]]) : 1;
      a.ids[i64(t) * a.topK + j] = chosen[j];
      a.weights[i64(t) * a.topK + j] =
          isBroken ? nanValue() : float(x * factor * double(a.scale) * scale);
    }
    __syncwarp();
  }
}
