//===- MemoryNodes.h - What the use of memory nodes costs -------*- C++ -*-===//
//
// A machine with several sockets has a memory at each. Where each holds what
// its own cores read, all channels work and nothing crosses; where pages of all
// take turns, a core reads most of them over the link between nodes; and where
// one node does everything, it has its own channels and cores alone.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_MACHINE_COSTMODEL_MEMORYNODES_H
#define MOE_COMPILER_MACHINE_COSTMODEL_MEMORYNODES_H

#include "compiler/Machine/Targets/Target.h"

namespace moec {

/// A CPU with several nodes as it is with its memory used like that, to plan
/// with; none where its description does not tell: that of the machine is of
/// nodes that are split, links between them may not be known, and kernels that
/// were measured were so on all nodes.
std::optional<DeviceDesc> withNodes(const DeviceDesc &cpu, NodeUse use);

} // namespace moec

#endif // MOE_COMPILER_MACHINE_COSTMODEL_MEMORYNODES_H
