//===- Fuse.h - Several instructions in one launch --------------*- C++ -*-===//
//
// A decoded token costs a GPU many small kernels, each with a launch of its
// own. Neighbouring instructions of a queue can share a launch, which consists
// of the kernels' sources as they are (pieces). A piece
//
//   begins          with blocks of its own, beside the other pieces that begin;
//   follows tiles   of a product that begins: of the blocks that compute some
//                   of its columns (a tile), the one that ends last executes
//                   the piece for these columns;
//   follows all     the block of the launch that ends last executes it.
//
// Blocks find out who is last by atomic counters (Step::tickets), and no block
// waits for another. What each piece computes, and in which order it adds, does
// not depend on the block that executes it.
//
// Which instructions can share a launch follows from the bytes that each of
// them reads and writes, and from the Fusion of its launch. Compiler and
// runtime call fuse() with the same arguments; the runtime knows the bytes from
// the plan, which it has proven.
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
  uint64_t memory; ///< An identifier of the memory.
  uint64_t begin, end;
  bool writes;
};

struct Fusible {
  Launch launch; ///< The only launch of the instruction.
  std::vector<Use> uses;
};

/// Threads of a block of a launch in which no piece is of kind Wide: one block
/// may copy a row of 7168 floats, add it to another and normalise the sum.
inline constexpr uint32_t kFusedThreads = 1024;

/// Returns one launch with the effect of `parts`, which are at least two, one
/// after the other; none if there is no such launch, or if it would be no
/// faster.
std::optional<Launch> fuse(std::span<const Fusible> parts,
                           const LaunchContext &context);

/// Returns whether a fused launch can begin with a wait for a flag of the host,
/// and whether it can end by setting a flag. Otherwise graph nodes before and
/// after it do so. A launch of many blocks does not wait: all blocks would read
/// over the link, and if a step is cancelled, some blocks might have begun
/// before and some after that. The caller has to know whether other GPUs wait
/// for launches of this one.
bool canAwait(const Launch &launch);
bool canSignal(const Launch &launch);
/// Lets the launch with these arguments do so.
void setHostSync(std::span<std::byte> args, const HostSync &sync);

/// Returns whether the launch has blocks that end while another one goes on
/// alone, and can bring weights into L2 meanwhile.
bool canPrefetch(const Launch &launch);
/// Lets the launch with these arguments do so, for at most kMaxPrefetches
/// ranges of the GPU's memory.
void setPrefetch(std::span<std::byte> args, std::span<const Prefetch> ranges);
/// Returns the ranges that setPrefetch() set.
std::vector<Prefetch> prefetchesOf(std::span<const std::byte> args);

/// Returns the source of a fused kernel. Only the kernel's name is defined when
/// it is compiled.
std::string fusedSource(const KernelSpec &spec);

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_FUSE_H
