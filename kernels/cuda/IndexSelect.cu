// IndexSelect: selects the entries with the largest scores, in ascending order
// of their numbers. A block has one group of one token. Scores are mapped to
// integers in the same order and counted by their first eight bits; those that
// share the digit of the k-th largest are counted by the next eight bits, and
// so on. Counts are integers, so the order in which they are added does not
// matter. Then each warp has a section of the entries, and computes from the
// counts of the other sections where its own entries go.

#include "kernels/cuda/KvCache.cuh"

constexpr int kDigits = 256, kThreads = 512, kWarps = kThreads / 32;

/// Returns an integer with the order of scores. Minus zero equals zero, and NaN
/// ranks above all numbers.
MOE_DEVICE u32 rankOf(float score) {
  if (score != score)
    return 0xffffffffu;
  u32 bits = u32(__float_as_int(score + 0.0f));
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/// The rank of the k-th largest score, and how many scores of that rank are
/// among the k largest.
struct Threshold {
  u32 rank;
  int equal;
};

/// Called by the first warp: returns the digit of the `k`-th largest of the
/// scores in `counts`, and how many scores with that digit are among the k
/// largest. A lane has eight digits; the first lane has the largest ones.
MOE_DEVICE Threshold largestDigit(const u32 *counts, int k) {
  constexpr int kOwn = kDigits / 32;
  int lane = threadIdx.x, first = kDigits - 1 - lane * kOwn, own = 0;
#pragma unroll
  for (int i = 0; i < kOwn; ++i)
    own += int(counts[first - i]);
  int before = own; // The loop makes it the number of larger ones.
#pragma unroll
  for (int i = 1; i < 32; i *= 2) {
    int other = __shfl_up_sync(kAllLanes, before, i);
    before += lane >= i ? other : 0;
  }
  before -= own;
  Threshold found = {0, 0};
  bool isMine = before < k && k <= before + own;
  if (isMine) {
    int left = k - before, digit = first;
    while (int(counts[digit]) < left)
      left -= int(counts[digit--]);
    found = {u32(digit), left};
  }
  int from = __ffs(int(__ballot_sync(kAllLanes, isMine))) - 1;
  return {__shfl_sync(kAllLanes, found.rank, from),
          __shfl_sync(kAllLanes, found.equal, from)};
}

/// Calls body(entry, lanes with a larger rank, lanes with this rank) for a
/// warp's entries from `begin` to `end`.
template <class Body>
MOE_DEVICE void forEntries(const float *scores, int begin, int end, u32 least,
                           Body body) {
  for (int at = begin; at < end; at += 32) {
    int i = at + int(threadIdx.x) % 32;
    u32 rank = i < end ? rankOf(scores[i]) : 0;
    u32 isAbove = __ballot_sync(kAllLanes, i < end && rank > least);
    u32 isEqual = __ballot_sync(kAllLanes, i < end && rank == least);
    body(i, isAbove, isEqual);
  }
}

MOE_KERNEL(512, 2, IndexSelectArgs) {
  __shared__ u32 counts[kDigits];
  __shared__ Threshold least;
  __shared__ int above[kWarps], equal[kWarps];
  int t = blockIdx.x;
  if (t >= a.step->tokens)
    return;
  i64 row = i64(t) * a.groups + blockIdx.y;
  const float *scores = a.scores + row * a.scoresStride;
  int *chosen = a.chosen + row * a.topK;
  int n = entriesSeen(placeOf(a.step, t).position, a.ratio, a.local);
  for (int i = min(n, a.topK) + threadIdx.x; i < a.topK; i += kThreads)
    chosen[i] = -1;
  if (n <= a.topK) {
    for (int i = threadIdx.x; i < n; i += kThreads)
      chosen[i] = i;
    return;
  }

  Threshold found = {0, a.topK};
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = threadIdx.x; i < kDigits; i += kThreads)
      counts[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += kThreads) {
      u32 rank = rankOf(scores[i]);
      // Compare the leading digits. In the first round there are none, and a
      // shift by 32 would not remove all bits.
      if (shift == 24 || (rank ^ found.rank) >> (shift + 8) == 0)
        atomicAdd(&counts[rank >> shift & (kDigits - 1)], 1);
    }
    __syncthreads();
    if (threadIdx.x < 32) {
      Threshold digit = largestDigit(counts, found.equal);
      if (threadIdx.x == 0)
        least = {found.rank | digit.rank << shift, digit.equal};
    }
    __syncthreads();
    found = least;
  }

  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int section = ((n + kWarps - 1) / kWarps + 31) / 32 * 32;
  int begin = warp * section, end = min(n, begin + section);
  int ownAbove = 0, ownEqual = 0;
  forEntries(scores, begin, end, found.rank,
             [&](int, u32 isAbove, u32 isEqual) {
               ownAbove += __popc(isAbove);
               ownEqual += __popc(isEqual);
             });
  if (lane == 0) {
    above[warp] = ownAbove;
    equal[warp] = ownEqual;
  }
  __syncthreads();
  int aboveBefore = 0, equalBefore = 0;
  for (int w = 0; w < warp; ++w) {
    aboveBefore += above[w];
    equalBefore += equal[w];
  }
  u32 lower = (1u << lane) - 1;
  forEntries(scores, begin, end, found.rank,
             [&](int i, u32 isAbove, u32 isEqual) {
               int equals = equalBefore + __popc(isEqual & lower);
               bool isTaken = isAbove >> lane & 1 ||
                              (isEqual >> lane & 1 && equals < found.equal);
               if (isTaken)
                 chosen[aboveBefore + __popc(isAbove & lower) +
                        min(equals, found.equal)] = i;
               aboveBefore += __popc(isAbove);
               equalBefore += __popc(isEqual);
             });
}
