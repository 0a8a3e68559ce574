//===- Nvrtc.h - NVIDIA's compiler for kernels, opened at run time -*- C++ -*-//
//
// CUDA C++ to machine code, without a toolkit, a GPU or a driver: a library
// that is found when it is needed and is no part of a build.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_CUDA_NVRTC_H
#define MOE_COMPILER_CUDA_NVRTC_H

#include "runtime/base/Status.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace moec {

/// A text that #include finds under its name.
struct NvrtcHeader {
  std::string name, text;
};

/// What became of a source. What ptxas says of it is in the log.
struct NvrtcOutput {
  std::string cubin, ptx, log;
};

class Nvrtc {
public:
  /// Opens `path`, or where it is empty the newest libnvrtc that the system, a
  /// toolkit in /usr/local/cuda or the user's cache folder has. Unsupported,
  /// with the line that installs one, where there is none; Usage for a `path`
  /// that is none.
  static moert::StatusOr<Nvrtc> open(const std::string &path = "");

  /// The first of `libraries` that opens; else as open() without any.
  static moert::StatusOr<Nvrtc>
  openAmong(const std::vector<std::string> &libraries);
  /// Where open() looks.
  static std::vector<std::string> usualPlaces();

  int versionMajor() const { return major_; }
  int versionMinor() const { return minor_; }
  /// Compute capabilities * 10 that it makes code for, ascending.
  const std::vector<int> &archs() const { return archs_; }

  /// Compiles for one of archs(). `name` is what messages call the source.
  /// Internal, with the compiler's messages, where it is wrong. Threads may
  /// call this at the same time.
  moert::StatusOr<NvrtcOutput> compile(const std::string &name,
                                       const std::string &source,
                                       std::span<const NvrtcHeader> headers,
                                       std::span<const std::string> options,
                                       int arch) const;

private:
  struct Api;
  Nvrtc() = default;
  static moert::StatusOr<Nvrtc> from(std::shared_ptr<Api> api,
                                     const std::string &path);

  std::shared_ptr<const Api> api_;
  int major_ = 0, minor_ = 0;
  std::vector<int> archs_;
};

} // namespace moec

#endif // MOE_COMPILER_CUDA_NVRTC_H
