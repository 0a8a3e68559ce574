//===- NodeUses.h - Uses of a host's memory nodes ---------------*- C++ -*-===//
//
// A choice for the whole plan: it decides the cores, rates and memory of the
// host (compiler/Machine/CostModel/MemoryNodes.h), and with these the
// placement.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_PLACEMENT_NODEUSES_H
#define MOE_PASSES_MOE_PLACEMENT_NODEUSES_H

#include "compiler/Machine/Targets/Target.h"
#include "mlir/IR/BuiltinOps.h"

#include <vector>

namespace mlir::moe {

/// Returns the target for each use of its host's memory nodes that `numa`
/// allows: "auto", "any", "split", "interleaved" or "one". It is the target
/// itself if the host has one node or its use is known. Emits an error if the
/// host cannot be used as `numa` says.
FailureOr<std::vector<moec::TargetDesc>>
withNodeUses(ModuleOp module, const moec::TargetDesc &target, StringRef numa);

/// Records `target` and, in a note, how its host's memory nodes are used.
void recordNodeUse(ModuleOp module, const moec::TargetDesc &target,
                   const Twine &why);

/// Describes where the host's weights lie, to complete "weights are ...".
StringRef textOf(moec::NodeUse use);

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PLACEMENT_NODEUSES_H
