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

#include "kernels/cpu/Simd.h"

namespace moek {

/// The part of a share that goes by ticket, and in how many pieces: of a share
/// of 500 us the last 60 us, 2 us at a time.
inline constexpr int64_t kTicketPart = 8;
inline constexpr int64_t kTickets = 32;

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

/// The contiguous part of `count` items that this worker's node does: the same
/// in every step, so that its memory can hold that part.
MOE_INLINE Range nodeShare(int64_t count, const Worker &worker) {
  int64_t end = worker.nodeEnd ? worker.nodeEnd : worker.count;
  return {count * worker.nodeBegin / worker.count, count * end / worker.count};
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
  int64_t piece = (tail + kTickets - 1) / kTickets;
  piece = piece > least ? piece : least;
  for (int64_t i = 0; i < team.size; ++i) {
    int64_t owner = (team.index + i) % team.size;
    uint32_t *ticket = team.tickets + owner * team.stride;
    for (;;) {
      int64_t first =
          int64_t(__atomic_fetch_add(ticket, 1u, __ATOMIC_RELAXED)) * piece;
      if (first >= tail)
        break;
      int64_t from = shareEnd(owner) - tail + first;
      body(from, first + piece < tail ? from + piece : shareEnd(owner));
    }
  }
}

} // namespace moek

#endif // MOE_KERNELS_CPU_SHARE_H
