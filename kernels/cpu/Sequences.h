//===- Sequences.h - Loops over the sequences of a step ---------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_SEQUENCES_H
#define MOE_KERNELS_CPU_SEQUENCES_H

#include "kernels/cpu/Simd.h"

namespace moek {

/// Calls body(rows, worker) for each sequence of the step. All workers share
/// the work of each sequence, so that one long sequence keeps none of them
/// waiting. Shares differ by at most one item; the worker indices are rotated
/// with each sequence, so that the larger shares go to different workers. The
/// instruction's tickets are for the last sequence, whose work also makes up
/// for what others were late with before it.
template <class Body>
MOE_INLINE void forSequences(const Step &step, const Worker &worker,
                             Body body) {
  Worker turned = worker;
  for (int32_t i = 0; i < step.sequenceCount; ++i) {
    turned.tickets = i + 1 < step.sequenceCount ? nullptr : worker.tickets;
    body(step.sequence(i), turned);
    turned.index = turned.index + 1 < turned.count ? turned.index + 1 : 0;
  }
}

/// Calls body(token, position, rows) for this worker's share of the step's
/// tokens, where `rows` describes the token's sequence.
template <class Body>
MOE_INLINE void forTokens(const Step &step, const Worker &worker, Body body) {
  Range share = shareOf(step.tokens, 1, worker);
  for (int32_t i = 0; i < step.sequenceCount; ++i) {
    SequenceRows rows = step.sequence(i);
    int64_t end = rows.begin + rows.count;
    int64_t last = end < share.end ? end : share.end;
    for (int64_t t = share.begin > rows.begin ? share.begin : rows.begin;
         t < last; ++t)
      body(t, rows.position + (t - rows.begin), rows);
  }
}

} // namespace moek

#endif // MOE_KERNELS_CPU_SEQUENCES_H
