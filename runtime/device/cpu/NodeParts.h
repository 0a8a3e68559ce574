//===- NodeParts.h - Which memory node reads which weights ------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CPU_NODEPARTS_H
#define MOE_RUNTIME_DEVICE_CPU_NODEPARTS_H

#include "runtime/base/MappedFile.h"

#include <span>
#include <vector>

namespace moert {

namespace fb {
struct Plan;
} // namespace fb

/// Returns, for each file of the plan, the bytes that only one node's workers
/// read: their rows of every matrix and every expert that a GEMM multiplies.
/// Ranges are ascending and disjoint. `nodes` has one list per device, as for
/// Executor::create(). All nodes read the other bytes. If two devices read the
/// same bytes, the first device decides.
std::vector<std::vector<NodeBytes>>
nodeParts(const fb::Plan &plan, std::span<const std::vector<int>> nodes);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_NODEPARTS_H
