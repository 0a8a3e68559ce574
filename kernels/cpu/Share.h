//===- Share.h - Divides an instruction among workers -----------*- C++ -*-===//
//
// Each worker begins with its own contiguous share. Equal shares do not take
// equally long, because other traffic on the memory bus and other load on the
// CPU change from moment to moment, and all workers wait at the next barrier.
// So the end of a share is cut into pieces that are taken by ticket, first by
// its owner, then by any worker that has finished its own. Work stays within a
// NUMA node: a worker never takes a piece of weights that another node reads.
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_SHARE_H
#define MOE_KERNELS_CPU_SHARE_H

#include "kernels/NodeShare.h"
#include "kernels/cpu/Inline.h"

namespace moek {

/// 1 / kTicketDivisor of a share is taken by ticket. With one half, a worker
/// may be three times as slow as another (an efficiency core beside a
/// performance core, a core with a busy hyper-thread) before the other has to
/// wait.
inline constexpr int64_t kTicketDivisor = 2;
inline constexpr int64_t kTickets = 16;

/// Returns where ticket `i` begins in a tail of `tail` items, in multiples of
/// `least`. The first piece is an eighth of the tail and later ones are ever
/// smaller, because the last piece may keep the other workers waiting. Of a
/// share of 500 us that is 30 us, then 28 ... 1.
MOE_INLINE int64_t ticketBegin(int64_t tail, int64_t least, int64_t i) {
  int64_t left = kTickets - i;
  int64_t begin = tail - tail * left * left / (kTickets * kTickets);
  begin = (begin + least - 1) / least * least;
  return begin < tail ? begin : tail;
}

/// A group of workers that divide some work: `size` of them, this one is number
/// `index`.
struct Team {
  int64_t index, size;
  uint32_t *tickets; ///< Counters of the group's first worker, or null.
  int64_t stride;
};

/// Returns the group of workers on this worker's NUMA node.
MOE_INLINE Team nodeTeam(const Worker &worker) {
  int64_t end = worker.nodeEnd ? worker.nodeEnd : worker.count;
  return {worker.index - worker.nodeBegin, end - worker.nodeBegin,
          worker.tickets
              ? worker.tickets + worker.nodeBegin * worker.ticketStride
              : nullptr,
          worker.ticketStride};
}

/// Returns the group of all workers.
MOE_INLINE Team wholeTeam(const Worker &worker) {
  return {worker.index, worker.count, worker.tickets, worker.ticketStride};
}

/// Calls body(begin, end) for the ranges of [0, count) that this worker
/// processes; the calls of all workers of the group cover each item once.
/// Ranges taken by ticket have at least `least` items.
template <class Body>
MOE_INLINE void forShares(int64_t count, int64_t least, const Team &team,
                          Body body) {
  auto shareEnd = [&](int64_t member) {
    return count * (member + 1) / team.size;
  };
  int64_t begin = count * team.index / team.size, end = shareEnd(team.index);
  // Every share has at least count / size items, so all have a tail of this
  // length.
  int64_t tail =
      team.tickets && team.size > 1 ? count / team.size / kTicketDivisor : 0;
  if (begin < end - tail)
    body(begin, end - tail);
  if (tail == 0)
    return;
  for (int64_t i = 0; i < team.size; ++i) {
    int64_t owner = (team.index + i) % team.size;
    uint32_t *ticket = team.tickets + owner * team.stride;
    // The plain load comes first, so that workers that find nothing left do not
    // take the counter's cache line from each other.
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
