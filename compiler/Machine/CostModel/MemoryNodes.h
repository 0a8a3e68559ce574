//===- MemoryNodes.h - Cost of using several memory nodes -------*- C++ -*-===//
//
// A machine with several sockets has a memory node at each. If each node has
// the data that its own cores read, all channels are used and nothing crosses
// the link. If pages are interleaved, a core reads most of them over the link
// between nodes. If one node does everything, only its channels and cores are
// used.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_MACHINE_COSTMODEL_MEMORYNODES_H
#define MOE_COMPILER_MACHINE_COSTMODEL_MEMORYNODES_H

#include "compiler/Machine/Targets/Target.h"

namespace moec {

/// Returns a CPU with several nodes as it behaves with this use of its memory.
/// Returns none if its description does not allow that: descriptions are of
/// split nodes, the link between nodes may be unknown, and kernels were
/// measured on all nodes.
std::optional<DeviceDesc> withNodes(const DeviceDesc &cpu, NodeUse use);

} // namespace moec

#endif // MOE_COMPILER_MACHINE_COSTMODEL_MEMORYNODES_H
