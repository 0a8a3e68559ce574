//===- TestNvrtc.h - NVRTC for tests ----------------------------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_TESTNVRTC_H
#define MOE_TEST_SOFTGPU_TESTNVRTC_H

#include <dlfcn.h>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <string>

namespace softgpu {

/// NVRTC, opened at run time.
class Nvrtc {
public:
  Nvrtc() {
    for (const char *name : {"libnvrtc.so.13", "libnvrtc.so.12",
                             "/usr/local/cuda/lib64/libnvrtc.so.13",
                             "/usr/local/cuda/lib64/libnvrtc.so.12"})
      if (!library_)
        library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  bool isThere() const { return library_; }

  struct Output {
    std::string ptx, cubin;
  };
  Output compile(const std::string &path, int arch) {
    std::ifstream file(path);
    std::stringstream source;
    source << file.rdbuf();
    void *program = nullptr;
    Output output;
    EXPECT_EQ(call<int>("nvrtcCreateProgram", &program, source.str().c_str(),
                        "kernel.cu", 0, (void *)nullptr, (void *)nullptr),
              0);
    std::string option = fmt::format("--gpu-architecture=sm_{}", arch);
    const char *options[] = {option.c_str(), "--std=c++17"};
    if (call<int>("nvrtcCompileProgram", program, 2,
                  (const char *const *)options) != 0)
      ADD_FAILURE() << text(program, "nvrtcGetProgramLog");
    output.ptx = text(program, "nvrtcGetPTX");
    output.cubin = text(program, "nvrtcGetCUBIN");
    call<int>("nvrtcDestroyProgram", &program);
    return output;
  }

private:
  template <class R, class... Args>
  R call(const std::string &name, Args... args) {
    auto function =
        reinterpret_cast<R (*)(Args...)>(dlsym(library_, name.c_str()));
    return function ? function(args...) : R(-1);
  }
  std::string text(void *program, const std::string &name) {
    size_t size = 0;
    call<int>(name + "Size", program, &size);
    std::string out(size, '\0');
    call<int>(name, program, out.data());
    return out;
  }
  void *library_ = nullptr;
};

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_TESTNVRTC_H
