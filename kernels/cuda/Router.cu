// Router: scores, selection and mixing weights of experts; with MOE_HASHED the
// op is HashRouter, whose choices come from a row of a table. A block of one
// warp has one token. In double, as on the CPU: in float all sigmoids above 17
// are equal, and both devices must choose alike.

#include "kernels/cuda/Softplus.cuh"

// moek::Scoring
enum { kSoftmax = 1, kSigmoid = 2, kSoftmaxTopK = 3, kSqrtSoftplus = 4 };

extern __shared__ double shared[]; // score, rank [experts], groupRank [groups]

/// The lowest rank of an expert that may be chosen. Dropped experts have minus
/// infinity, taken ones NaN.
MOE_DEVICE double lowest() { return -1.7976931348623157e308; }
MOE_DEVICE double taken() { return __longlong_as_double(0x7ff8000000000000); }
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

/// Returns the index of the largest of `values` that is not taken (the first of
/// equal ones) to all lanes, which then mark it as taken. See
/// kernels/cpu/Router.h.
MOE_DEVICE int takeBest(double *values, int count) {
  int lane = threadIdx.x, best = -1;
  double value = 0;
  for (int e = lane; e < count; e += 32)
    if (values[e] == values[e] && (best < 0 || values[e] > value)) {
      best = e;
      value = values[e];
    }
#pragma unroll
  for (int i = 16; i > 0; i /= 2) {
    int other = __shfl_xor_sync(kAllLanes, best, i);
    double its = __shfl_xor_sync(kAllLanes, value, i);
    if (other >= 0 &&
        (best < 0 || its > value || (its == value && other < best))) {
      best = other;
      value = its;
    }
  }
  __syncwarp();
  if (lane == 0)
    values[best] = taken();
  __syncwarp();
  return best;
}

MOE_DEVICE void dropGroups(const Routing &a, double *rank,
                           double *groupRank) {
  int lane = threadIdx.x, size = a.experts / a.groups;
  for (int g = lane; g < a.groups; g += 32) {
    double first = dropped(), second = dropped();
    for (int e = g * size; e < (g + 1) * size; ++e)
      if (rank[e] > first) {
        second = first;
        first = rank[e];
      } else if (rank[e] > second) {
        second = rank[e];
      }
    groupRank[g] = a.groupBest > 1 ? ordered(first + second) : first;
  }
  __syncwarp();
  for (int i = 0; i < a.groupsUsed; ++i)
    takeBest(groupRank, a.groups);
  for (int e = lane; e < a.groups * size; e += 32)
    if (groupRank[e / size] == groupRank[e / size])
      rank[e] = dropped();
  __syncwarp();
}
#endif

MOE_KERNEL(32, 1, Routing) {
  int t = blockIdx.x, lane = threadIdx.x;
  if (t >= a.step->tokens)
    return;
  const float *logits = a.logits + t * a.stride;
  int *ids = a.ids + i64(t) * a.topK;
  float *weights = a.weights + i64(t) * a.topK;
  double *score = shared, *rank = score + a.experts;

  float most = -infinity();
  double poison = 0, sum = 0; // NaN if a logit or a bias is not finite.
  for (int e = lane; e < a.experts; e += 32) {
    poison += 0 * (double(logits[e]) + biasOf(a, e));
    most = logits[e] > most ? logits[e] : most;
  }
  most = warpMax(most);
  poison = warpSum(poison);
  for (int e = lane; e < a.experts; e += 32) {
    double x = logits[e];
    score[e] = a.scoring == kSigmoid        ? 1 / (1 + exp(-x))
               : a.scoring == kSoftmax      ? exp(x - double(most))
               : a.scoring == kSqrtSoftplus ? sqrt(softplus(x))
                                            : x;
    sum += score[e];
  }
  if (a.scoring == kSoftmax)
    sum = warpSum(sum);
  for (int e = lane; e < a.experts; e += 32) {
    if (a.scoring == kSoftmax)
      score[e] /= sum;
    rank[e] = ordered(score[e] + biasOf(a, e));
  }
  __syncwarp();

#ifdef MOE_HASHED
  const int *row = a.table + i64(a.tokens[t]) * a.topK;
  bool isValid = isChoice(row, a);
  poison += isValid ? 0 : taken();
  for (int j = lane; j < a.topK; j += 32)
    ids[j] = isValid ? row[j] : j;
#else
  if (a.groups > 1)
    dropGroups(a, rank, rank + a.experts);
  for (int j = 0; j < a.topK; ++j) {
    int best = takeBest(rank, a.experts);
    if (lane == 0)
      ids[j] = best;
  }
#endif
  __syncwarp();

  // With SoftmaxTopK and a bias, the first choice may not have the largest
  // score.
  double total = 0, first = score[ids[0]];
  for (int j = 1; j < a.topK; ++j)
    first = score[ids[j]] > first ? score[ids[j]] : first;
  // All lanes execute this, so that the warp stays converged afterwards
  // (Fused.cuh).
  auto scoreOf = [&](int j) {
    double x = score[ids[j]];
    return a.scoring == kSoftmaxTopK ? exp(x - first) : x;
  };
  for (int j = 0; j < a.topK; ++j)
    total += scoreOf(j);
  double factor = a.scoring == kSoftmaxTopK ? 1 / total : 1;
  if (a.normalize)
    factor = a.scoring == kSoftmaxTopK ? factor : 1 / total;
  for (int j = 0; j < a.topK; ++j) {
    double scale = a.expertScale ? double(a.expertScale[ids[j]]) : 1;
    float weight =
        float(scoreOf(j) * factor * double(a.scale) * scale + poison);
    if (lane == 0)
      weights[j] = weight;
  }
}
