//===- States.h - Memory that a plan uses for states ------------*- C++ -*-===//

#ifndef MOE_RUNTIME_PLAN_STATES_H
#define MOE_RUNTIME_PLAN_STATES_H

#include "kernels/KvCache.h"
#include "runtime/schema/plan_generated.h"

namespace moert {

/// Returns the bytes of a cache, or of all states of a layer.
inline int64_t cacheBytes(const fb::Kv &kv) {
  auto type = moek::KvType(kv.type());
  return kv.row_per_sequence()
             ? moek::kvRowBytes(type, kv.width()) * kv.capacity()
             : moek::kvBytes(type, kv.width(), kv.capacity());
}

/// Returns the bytes of all states of all layers.
int64_t stateBytes(const fb::Plan &plan);

/// Returns the elements of a row if the states of cache `index` are rings of
/// rows (kernels/Ring.h): the width of the rows that instructions append.
/// Returns 0 for other states and for caches with pages. `plan` must have
/// passed verifyPhases().
int64_t ringRowWidth(const fb::Plan &plan, uint32_t index);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_STATES_H
