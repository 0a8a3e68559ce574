#include "compiler/Cuda/Nvrtc.h"

#include "runtime/base/Remedy.h"
#include "runtime/base/UserCache.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

// The part of nvrtc.h that is used here, so that building needs no CUDA.
struct Nvrtc::Api {
  using Program = struct ProgramTag *;
  using Result = int; // 0: success

  std::unique_ptr<void, int (*)(void *)> library{nullptr, &::dlclose};
  Result (*version)(int *major, int *minor) = nullptr;
  Result (*archCount)(int *count) = nullptr;
  Result (*archs)(int *archs) = nullptr;
  const char *(*errorString)(Result) = nullptr;
  Result (*create)(Program *, const char *source, const char *name, int headers,
                   const char *const *texts,
                   const char *const *names) = nullptr;
  Result (*destroy)(Program *) = nullptr;
  Result (*compile)(Program, int count, const char *const *options) = nullptr;
  Result (*logSize)(Program, size_t *) = nullptr;
  Result (*log)(Program, char *) = nullptr;
  Result (*ptxSize)(Program, size_t *) = nullptr;
  Result (*ptx)(Program, char *) = nullptr;
  Result (*cubinSize)(Program, size_t *) = nullptr;
  Result (*cubin)(Program, char *) = nullptr;

  /// Finds the functions of the library. Returns false if one is missing.
  bool find() {
    auto symbol = [&](const char *name, auto &call) {
      void *address = ::dlsym(library.get(), name);
      static_assert(sizeof(address) == sizeof(call));
      std::memcpy(&call, &address, sizeof(call));
      return address != nullptr;
    };
    return symbol("nvrtcVersion", version) &&
           symbol("nvrtcGetNumSupportedArchs", archCount) &&
           symbol("nvrtcGetSupportedArchs", archs) &&
           symbol("nvrtcGetErrorString", errorString) &&
           symbol("nvrtcCreateProgram", create) &&
           symbol("nvrtcDestroyProgram", destroy) &&
           symbol("nvrtcCompileProgram", compile) &&
           symbol("nvrtcGetProgramLogSize", logSize) &&
           symbol("nvrtcGetProgramLog", log) &&
           symbol("nvrtcGetPTXSize", ptxSize) && symbol("nvrtcGetPTX", ptx) &&
           symbol("nvrtcGetCUBINSize", cubinSize) &&
           symbol("nvrtcGetCUBIN", cubin);
  }
};

namespace {
constexpr const char *kLibraries[] = {
    "libnvrtc.so.13", "libnvrtc.so.12",
    // Toolkits are often outside the loader's search path.
    "/usr/local/cuda/lib64/libnvrtc.so.13",
    "/usr/local/cuda/lib64/libnvrtc.so.12"};
} // namespace

std::vector<std::string> Nvrtc::usualPlaces() {
  std::vector<std::string> places(std::begin(kLibraries), std::end(kLibraries));
  // The folder into which tools/install-deps.sh installs the pip package.
  std::error_code error; // It is set if the folder does not exist.
  for (const auto &package : std::filesystem::directory_iterator(
           moert::userCacheFolder() + "/nvrtc/nvidia", error))
    for (const char *name : {"libnvrtc.so.13", "libnvrtc.so.12"})
      places.push_back((package.path() / "lib" / name).string());
  return places;
}

StatusOr<Nvrtc> Nvrtc::open(const std::string &path) {
  if (path.empty())
    return openAmong(usualPlaces());
  auto api = std::make_shared<Api>();
  api->library.reset(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!api->library)
    return Status(StatusCode::Usage,
                  fmt::format("cannot open NVRTC: {}", ::dlerror()));
  return from(std::move(api), path);
}

StatusOr<Nvrtc> Nvrtc::openAmong(const std::vector<std::string> &libraries) {
  auto api = std::make_shared<Api>();
  for (const std::string &name : libraries)
    if (!api->library)
      api->library.reset(::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!api->library)
    return Status(StatusCode::Unsupported,
                  "kernels for a GPU are compiled by NVIDIA's NVRTC, and this "
                  "machine has no libnvrtc.so.13 or libnvrtc.so.12")
        .suggesting(
            {moert::Suggestion::InstallNvrtc,
             moert::OtherCommand{
                 {"python3", "-m", "pip", "install", "--no-deps", "--target",
                  moert::userCacheFolder() + "/nvrtc", "nvidia-cuda-nvrtc"}}},
            ": ");
  return from(std::move(api), "libnvrtc");
}

StatusOr<Nvrtc> Nvrtc::from(std::shared_ptr<Api> api, const std::string &path) {
  if (!api->find())
    return Status(StatusCode::Unsupported,
                  fmt::format("{} is not NVRTC of CUDA 12 or later", path));
  Nvrtc nvrtc;
  nvrtc.api_ = api;
  int count = 0;
  if (api->version(&nvrtc.major_, &nvrtc.minor_) != 0 ||
      api->archCount(&count) != 0)
    return Status(StatusCode::Unsupported, "NVRTC does not report its version");
  nvrtc.archs_.resize(size_t(count));
  if (api->archs(nvrtc.archs_.data()) != 0)
    return Status(StatusCode::Unsupported, "NVRTC does not report its targets");
  std::sort(nvrtc.archs_.begin(), nvrtc.archs_.end());
  return nvrtc;
}

StatusOr<NvrtcOutput> Nvrtc::compile(const std::string &name,
                                     const std::string &source,
                                     std::span<const NvrtcHeader> headers,
                                     std::span<const std::string> options,
                                     int arch, bool isExact) const {
  std::vector<const char *> texts, names, flags;
  for (const NvrtcHeader &header : headers) {
    texts.push_back(header.text.c_str());
    names.push_back(header.name.c_str());
  }
  const std::string target = fmt::format("sm_{}{}", arch, isExact ? "a" : "");
  const std::string flag = "--gpu-architecture=" + target;
  flags.push_back(flag.c_str());
  // From version 13 on NVRTC has a cache of its own, and results from it have
  // no log.
  if (major_ >= 13)
    flags.push_back("--no-cache");
  for (const std::string &option : options)
    flags.push_back(option.c_str());

  Api::Program created = nullptr;
  Api::Result result =
      api_->create(&created, source.c_str(), name.c_str(), int(texts.size()),
                   texts.data(), names.data());
  auto destroy = [&](Api::Program program) { (void)api_->destroy(&program); };
  std::unique_ptr<std::remove_pointer_t<Api::Program>, decltype(destroy)>
      program(created, destroy);
  if (result == 0)
    result = api_->compile(created, int(flags.size()), flags.data());
  NvrtcOutput output;
  /// Sizes of texts include a terminating zero; that of a cubin does not.
  auto read = [&](auto size, auto get, std::string &to, size_t zeros) {
    size_t bytes = 0;
    if (size(created, &bytes) != 0 || bytes < zeros)
      return false;
    to.resize(bytes);
    if (get(created, to.data()) != 0)
      return false;
    to.resize(bytes - zeros);
    return true;
  };
  bool hasLog = created && read(api_->logSize, api_->log, output.log, 1);
  if (result != 0)
    return Status(StatusCode::Internal,
                  fmt::format("NVRTC {}.{} does not compile {} for {}: {}{}",
                              major_, minor_, name, target,
                              api_->errorString(result),
                              hasLog ? "\n" + output.log : ""));
  if (!read(api_->cubinSize, api_->cubin, output.cubin, 0) ||
      !read(api_->ptxSize, api_->ptx, output.ptx, 1))
    return Status(
        StatusCode::Internal,
        fmt::format("NVRTC produced no code for {} and {}", name, target));
  return output;
}

} // namespace moec
