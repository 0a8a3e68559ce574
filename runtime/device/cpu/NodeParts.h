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

/// For each file of the plan, the bytes that one node's workers read and no
/// others: its rows of every matrix and of every expert that a gemm multiplies.
/// Ascending and apart. `nodes` is by device, each as Executor::create() takes
/// it. What is in no part is read by all; of what two devices read, the first
/// has its way.
std::vector<std::vector<NodeBytes>>
nodeParts(const fb::Plan &plan, std::span<const std::vector<int>> nodes);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_NODEPARTS_H
