//===- States.h - Which memory of a plan is for states ----------*- C++ -*-===//

#ifndef MOE_RUNTIME_PLAN_STATES_H
#define MOE_RUNTIME_PLAN_STATES_H

#include "kernels/KvCache.h"
#include "runtime/schema/plan_generated.h"

namespace moert {

/// Bytes of a cache, or of all states of a layer.
inline int64_t cacheBytes(const fb::Kv &kv) {
  auto type = moek::KvType(kv.type());
  return kv.per_sequence() ? moek::kvRowBytes(type, kv.width()) * kv.capacity()
                           : moek::kvBytes(type, kv.width(), kv.capacity());
}

/// Of all states.
int64_t stateBytes(const fb::Plan &plan);

/// Elements of the rows of which the states of cache `index` are rings
/// (kernels/Ring.h): the width of those that its instructions append; 0 for
/// other states, and for caches with pages. Of a plan that passed
/// verifyPhases().
int64_t ringRowWidth(const fb::Plan &plan, uint32_t index);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_STATES_H
