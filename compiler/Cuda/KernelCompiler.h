//===- KernelCompiler.h - Kernels of a plan as machine code -----*- C++ -*-===//
//
// Compiles what kernels/cuda/Launch.h names, on all cores, each kernel once,
// and keeps the results in a folder under a hash of all that they depend on:
// sources, definitions, target and version of the compiler. The same input
// gives the same bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_CUDA_KERNELCOMPILER_H
#define MOE_COMPILER_CUDA_KERNELCOMPILER_H

#include "compiler/Cuda/Nvrtc.h"
#include "kernels/cuda/Launch.h"
#include "runtime/base/ParallelPieces.h"

namespace moec {

/// Code for one architecture.
struct KernelImage {
  int arch = 0;
  std::string cubin; ///< For `arch`.
  std::string ptx;   ///< For `arch` and later.
  // As ptxas reports them.
  int registers = 0;    ///< Of a thread.
  int spilledBytes = 0; ///< Stored and loaded, of a thread.
  int stackBytes = 0;   ///< Of a thread: arrays that are not in registers.
  int sharedBytes = 0;  ///< That the code declares.
};

struct KernelJob {
  moek::cuda::KernelSpec spec;
  int arch = 0;
};

class KernelCompiler {
public:
  /// `cacheFolder` is made when something is put there; "": nothing is kept.
  KernelCompiler(Nvrtc nvrtc, std::string cacheFolder = "");

  /// Images of `jobs`, in their order; equal jobs are compiled once. Progress
  /// is told in kernels.
  moert::StatusOr<std::vector<KernelImage>>
  compile(std::span<const KernelJob> jobs,
          const moert::PiecesOptions &options = {});
  moert::StatusOr<KernelImage> compile(const KernelJob &job);

  const Nvrtc &nvrtc() const { return nvrtc_; }
  /// Kernels that compile() took from the cache so far.
  int cached() const { return cached_; }

private:
  std::string keyOf(const KernelJob &job) const;
  moert::StatusOr<std::string>
  sourceOf(const moek::cuda::KernelSpec &spec) const;
  moert::StatusOr<KernelImage> compileOne(const KernelJob &job,
                                          bool &wasCached) const;

  Nvrtc nvrtc_;
  std::string cacheFolder_;
  std::vector<NvrtcHeader> headers_;
  int cached_ = 0;
};

} // namespace moec

#endif // MOE_COMPILER_CUDA_KERNELCOMPILER_H
