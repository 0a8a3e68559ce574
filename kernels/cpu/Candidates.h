//===- Candidates.h - CPU kernels of blocks of entries ----------*- C++ -*-===//
//
// An indexer may bound the choice of later ones: each token chooses blocks of
// entries by their largest scores, and later indexers choose among the entries
// of these blocks and of the token's own.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_CANDIDATES_H
#define MOE_KERNELS_CPU_CANDIDATES_H

#include "kernels/Abi.h"
#include "kernels/cpu/Sparse.h"

namespace moek {

/// A NaN is larger than all numbers, as IndexSelect ranks it.
template <class S>
void run(const BlockMaximaArgs &a, const Step &step, const Worker &worker) {
  forTokens(step, worker,
            [&](int64_t t, int64_t position, const SequenceRows &) {
              const float *scores = a.scores + t * a.scoresStride;
              float *out = a.out + t * a.outStride;
              for (int64_t block = 0; block < position / a.ratio; ++block) {
                float most = kMinusInfinity;
                for (int32_t i = 0; i < a.size; ++i) {
                  float score = scores[block * a.size + i];
                  // The negated comparison is also true for a NaN.
                  if (!(most >= score))
                    most = score;
                  if (most != most)
                    break;
                }
                out[block] = most;
              }
            });
}

template <class S>
void run(const KeepBlocksArgs &a, const Step &step, const Worker &worker) {
  const int64_t each = a.ratio / a.size; // Positions of one entry.
  forTokens(step, worker,
            [&](int64_t t, int64_t position, const SequenceRows &) {
              const float *scores = a.scores + t * a.scoresStride;
              float *out = a.out + t * a.scoresStride;
              const int64_t seen = entriesSeen(position, each);
              for (int64_t i = 0; i < seen; ++i)
                out[i] = kMinusInfinity;
              auto keep = [&](int64_t block) {
                int64_t end = (block + 1) * a.size;
                for (int64_t i = block * a.size; i < end && i < seen; ++i)
                  out[i] = scores[i];
              };
              const int32_t *chosen = a.chosen + t * a.topK;
              for (int32_t k = 0; k < a.topK && chosen[k] >= 0; ++k)
                keep(chosen[k]);
              keep(position / a.ratio);
            });
}

} // namespace moek

#endif // MOE_KERNELS_CPU_CANDIDATES_H
