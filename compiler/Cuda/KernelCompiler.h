//===- KernelCompiler.h - Compiles a plan's GPU kernels ---------*- C++ -*-===//
//
// Compiles the kernels that kernels/cuda/Launch.h names, each once and on all
// cores. Results are cached in a folder, under a hash of everything that they
// depend on: sources, definitions, target and version of the compiler. The same
// input gives the same bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_CUDA_KERNELCOMPILER_H
#define MOE_COMPILER_CUDA_KERNELCOMPILER_H

#include "compiler/Cuda/Nvrtc.h"
#include "kernels/cuda/Launch.h"
#include "runtime/base/ParallelPieces.h"

namespace moec {

/// A kernel's code for one architecture.
struct KernelImage {
  int arch = 0;
  std::string cubin; ///< The code for `arch`.
  /// Code for `arch` and later ones; for sm_90a only for `arch`.
  std::string ptx;
  // Resources of the kernel as ptxas reports them.
  int registers = 0; ///< Registers per thread.
  /// Bytes of registers that a thread stores and loads again.
  int spilledBytes = 0;
  /// Bytes per thread, for arrays that are not in registers.
  int stackBytes = 0;
  int sharedBytes = 0; ///< Bytes of static shared memory.
  /// Products of warpgroups wait for each other, because of how registers are
  /// used.
  bool isSerialized = false;
};

struct KernelJob {
  moek::cuda::KernelSpec spec;
  int arch = 0;
};

class KernelCompiler {
public:
  /// `cacheFolder` is created when the first result is stored; "" disables the
  /// cache.
  KernelCompiler(Nvrtc nvrtc, std::string cacheFolder = "");

  /// Returns the images of `jobs` in their order; equal jobs are compiled once.
  /// Progress is counted in kernels.
  moert::StatusOr<std::vector<KernelImage>>
  compile(std::span<const KernelJob> jobs,
          const moert::PiecesOptions &options = {});
  moert::StatusOr<KernelImage> compile(const KernelJob &job);

  const Nvrtc &nvrtc() const { return nvrtc_; }
  /// Number of kernels that compile() has taken from the cache.
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
