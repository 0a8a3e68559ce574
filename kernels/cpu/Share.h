//===- Share.h - How workers split an instruction ---------------*- C++ -*-===//
//
// Each worker begins with its own contiguous share. Equal shares do not take
// equally long: neighbours on the memory bus and on the CPU differ from moment
// to moment, and the others wait at the next barrier. So the end of a share is
// cut into pieces that are taken by ticket, first by its owner, then by whoever
// has finished. Nodes keep to themselves: a worker never takes a piece of
// weights that another NUMA node reads.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_SHARE_H
#define MOE_KERNELS_CPU_SHARE_H

#include "kernels/NodeShare.h"
#include "kernels/cpu/Inline.h"

namespace moek {

/// What fraction of a share goes by ticket: with half of it a worker may be
/// three times as slow as another (an efficiency core beside a performance
/// core, a core with a busy hyper-thread) before the other waits.
inline constexpr int64_t kTicketPart = 2;
inline constexpr int64_t kTickets = 16;

/// Where the ticket numbered `i` begins in a tail of `tail` items, in multiples
/// of `least`: an eighth first, then less and less, as what is still to do is
/// what the last piece may keep others waiting for. Of a share of 500 us that
/// is 30 us, then 28 ... 1.
MOE_INLINE int64_t ticketBegin(int64_t tail, int64_t least, int64_t i) {
  int64_t left = kTickets - i;
  int64_t begin = tail - tail * left * left / (kTickets * kTickets);
  begin = (begin + least - 1) / least * least;
  return begin < tail ? begin : tail;
}

/// Workers that share something out: `size` of them, this one at `index`.
struct Team {
  int64_t index, size;
  uint32_t *tickets; ///< Of the first; null for none.
  int64_t stride;
};

/// The workers of this worker's node.
MOE_INLINE Team nodeTeam(const Worker &worker) {
  int64_t end = worker.nodeEnd ? worker.nodeEnd : worker.count;
  return {worker.index - worker.nodeBegin, end - worker.nodeBegin,
          worker.tickets
              ? worker.tickets + worker.nodeBegin * worker.ticketStride
              : nullptr,
          worker.ticketStride};
}

/// Calls body(begin, end) for the parts of [0, count) that this worker does;
/// the team's calls together cover it once. Pieces have at least `least` items.
template <class Body>
MOE_INLINE void forShares(int64_t count, int64_t least, const Team &team,
                          Body body) {
  auto shareEnd = [&](int64_t member) {
    return count * (member + 1) / team.size;
  };
  int64_t begin = count * team.index / team.size, end = shareEnd(team.index);
  // Every share has at least this many, and so a tail of the same length.
  int64_t tail =
      team.tickets && team.size > 1 ? count / team.size / kTicketPart : 0;
  if (begin < end - tail)
    body(begin, end - tail);
  if (tail == 0)
    return;
  for (int64_t i = 0; i < team.size; ++i) {
    int64_t owner = (team.index + i) % team.size;
    uint32_t *ticket = team.tickets + owner * team.stride;
    // A look first: many workers that all find nothing left need not take the
    // counter's line from each other.
    while (__atomic_load_n(ticket, __ATOMIC_RELAXED) < kTickets) {
      int64_t next = __atomic_fetch_add(ticket, 1u, __ATOMIC_RELAXED);
      if (next >= kTickets)
        break;
      int64_t from = ticketBegin(tail, least, next);
      int64_t to = ticketBegin(tail, least, next + 1);
      if (from < to)
        body(shareEnd(owner) - tail + from, shareEnd(owner) - tail + to);
    }
  }
}

} // namespace moek

#endif // MOE_KERNELS_CPU_SHARE_H
