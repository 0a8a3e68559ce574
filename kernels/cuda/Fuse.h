//===- Fuse.h - Several instructions in one launch --------------*- C++ -*-===//
//
// A decoded token costs a GPU many small kernels, each with a launch of its
// own. Neighbours of a queue can be one: the launch is the kernels' sources as
// they are, put together (pieces). A piece
//
//   begins          with blocks of its own, beside the others that do
//   follows tiles   of a product that begins: of some columns, the block that
//                   ends last goes on with what is done to those
//   follows all     the block that ends last of all does it, alone
//
// Blocks count themselves on tickets (Step::tickets), and nobody waits. What
// each piece computes, and in which order it adds, does not depend on who does
// it.
//
// Compiler and runtime ask for the same: whether instructions can be one launch
// follows from the bytes that each reads and writes, which the runtime knows
// from the plan that it has proven.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_FUSE_H
#define MOE_KERNELS_CUDA_FUSE_H

#include "kernels/cuda/Launch.h"

#include <optional>

namespace moek::cuda {

/// Bytes of a memory that an instruction reads or writes, in the phase's
/// largest step.
struct Use {
  uint64_t memory; ///< A number of it.
  uint64_t begin, end;
  bool writes;
};

struct Fusible {
  Launch launch; ///< All that the instruction launches.
  std::vector<Use> uses;
};

/// One launch with the effect of `parts`, at least two, one after the other;
/// none where there is none, or it would be no faster.
std::optional<Launch> fuse(std::span<const Fusible> parts,
                           const LaunchContext &context);

/// Whether such a launch can begin with a wait for a flag of the host, and end
/// with one that it sets: the alternative are nodes of a graph before and
/// behind it. None waits that has many blocks, which would read over the link
/// all the time, and of which some might begin before a step is given up and
/// some after. A GPU on which others wait for its own launches has to be asked
/// for by who knows.
bool canAwait(const Launch &launch);
bool canSignal(const Launch &launch);
/// Has the launch with these arguments do so.
void meet(std::span<std::byte> args, const Meeting &meeting);

/// Whether `spec` is of such a launch, and the source that it is compiled from,
/// without definitions but the kernel's name.
bool isFused(const KernelSpec &spec);
std::string fusedSource(const KernelSpec &spec);

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_FUSE_H
