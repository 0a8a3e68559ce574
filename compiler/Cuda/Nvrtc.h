//===- Nvrtc.h - NVIDIA's compiler, opened at run time ----------*- C++ -*-===//
//
// Compiles CUDA C++ to machine code without a toolkit, a GPU or a driver. The
// library is opened when it is needed, and building does not depend on it.
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

/// A header that #include finds under its name.
struct NvrtcHeader {
  std::string name, text;
};

/// The result of a compilation. The log has the messages of ptxas.
struct NvrtcOutput {
  std::string cubin, ptx, log;
};

class Nvrtc {
public:
  /// Opens `path`, or if it is empty, the newest libnvrtc of the system, of a
  /// toolkit in /usr/local/cuda or in the user's cache folder. Fails with
  /// Unsupported and a command that installs NVRTC if there is none, or with
  /// Usage if `path` cannot be opened.
  static moert::StatusOr<Nvrtc> open(const std::string &path = "");

  /// Opens the first of `libraries` that loads; fails like open() if none does.
  static moert::StatusOr<Nvrtc>
  openAmong(const std::vector<std::string> &libraries);
  /// Returns the libraries that open() tries.
  static std::vector<std::string> usualPlaces();

  int versionMajor() const { return major_; }
  int versionMinor() const { return minor_; }
  /// Supported architectures (compute capabilities * 10), ascending.
  const std::vector<int> &archs() const { return archs_; }

  /// Compiles `source` for one of archs(). Messages call it `name`. Fails with
  /// Internal and the compiler's messages if the source is invalid. `isExact`:
  /// with the features that only GPUs of this architecture have (sm_90a).
  /// Thread-safe.
  moert::StatusOr<NvrtcOutput> compile(const std::string &name,
                                       const std::string &source,
                                       std::span<const NvrtcHeader> headers,
                                       std::span<const std::string> options,
                                       int arch, bool isExact = false) const;

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
