//===- DriverGpu.cpp - A GPU used through the CUDA driver -----------------===//

#include "test/kernels/cuda/Gpu.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>
#include <map>

namespace moek::test {

namespace {
/// The calls of cuda.h that are needed to launch kernels; 0 is success.
struct Driver {
  using Address = unsigned long long;
  int (*init)(unsigned) = nullptr;
  int (*errorName)(int, const char **) = nullptr;
  int (*deviceCount)(int *) = nullptr;
  int (*deviceGet)(int *, int) = nullptr;
  int (*deviceName)(char *, int, int) = nullptr;
  int (*attribute)(int *, int, int) = nullptr;
  int (*retain)(void **, int) = nullptr;
  int (*setCurrent)(void *) = nullptr;
  int (*alloc)(Address *, size_t) = nullptr;
  int (*free)(Address) = nullptr;
  int (*toDevice)(Address, const void *, size_t) = nullptr;
  int (*toHost)(void *, Address, size_t) = nullptr;
  int (*loadData)(void **, const void *) = nullptr;
  int (*getFunction)(void **, void *, const char *) = nullptr;
  int (*setFunction)(void *, int, int) = nullptr;
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned,
                unsigned, unsigned, void *, void **, void **) = nullptr;
  int (*synchronize)() = nullptr;
  int (*streamCreate)(void **, unsigned) = nullptr;
  int (*streamSynchronize)(void *) = nullptr;
  int (*beginCapture)(void *, int) = nullptr;
  int (*endCapture)(void *, void **) = nullptr;
  int (*instantiate)(void **, void *, unsigned long long) = nullptr;
  int (*graphLaunch)(void *, void *) = nullptr;
  int (*eventCreate)(void **, unsigned) = nullptr;
  int (*eventRecord)(void *, void *) = nullptr;
  int (*eventSynchronize)(void *) = nullptr;
  int (*eventTime)(float *, void *, void *) = nullptr;

  bool open() {
    void *library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    auto find = [&](const char *name, auto &call) {
      void *symbol = ::dlsym(library, name);
      std::memcpy(&call, &symbol, sizeof(call));
      return symbol != nullptr;
    };
    return library && find("cuInit", init) &&
           find("cuGetErrorName", errorName) &&
           find("cuDeviceGetCount", deviceCount) &&
           find("cuDeviceGet", deviceGet) &&
           find("cuDeviceGetName", deviceName) &&
           find("cuDeviceGetAttribute", attribute) &&
           find("cuDevicePrimaryCtxRetain", retain) &&
           find("cuCtxSetCurrent", setCurrent) &&
           find("cuMemAlloc_v2", alloc) && find("cuMemFree_v2", free) &&
           find("cuMemcpyHtoD_v2", toDevice) &&
           find("cuMemcpyDtoH_v2", toHost) &&
           find("cuModuleLoadData", loadData) &&
           find("cuModuleGetFunction", getFunction) &&
           find("cuFuncSetAttribute", setFunction) &&
           find("cuLaunchKernel", launch) &&
           find("cuCtxSynchronize", synchronize) &&
           find("cuStreamCreate", streamCreate) &&
           find("cuStreamSynchronize", streamSynchronize) &&
           find("cuStreamBeginCapture_v2", beginCapture) &&
           find("cuStreamEndCapture", endCapture) &&
           find("cuGraphInstantiateWithFlags", instantiate) &&
           find("cuGraphLaunch", graphLaunch) &&
           find("cuEventCreate", eventCreate) &&
           find("cuEventRecord", eventRecord) &&
           find("cuEventSynchronize", eventSynchronize) &&
           find("cuEventElapsedTime", eventTime);
  }
};

constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76;
constexpr int kMaxDynamicShared = 8; // Number of the function attribute.

class DriverGpu : public Gpu {
public:
  static std::unique_ptr<Gpu> open(std::string &why) {
    auto gpu = std::make_unique<DriverGpu>();
    int count = 0;
    void *context = nullptr;
    if (!gpu->driver_.open() || gpu->driver_.init(0) != 0 ||
        gpu->driver_.deviceCount(&count) != 0 || count < 1 ||
        gpu->driver_.deviceGet(&gpu->device_, 0) != 0 ||
        gpu->driver_.retain(&context, gpu->device_) != 0 ||
        gpu->driver_.setCurrent(context) != 0 ||
        gpu->driver_.streamCreate(&gpu->stream_, 1) != 0) {
      why = "this machine has no GPU";
      return nullptr;
    }
    return gpu;
  }

  std::string name() const override {
    char text[256] = {};
    driver_.deviceName(text, 255, device_);
    return text;
  }
  int arch() const override { return 10 * ask(kMajor) + ask(kMinor); }
  int multiprocessors() const override { return ask(kMultiprocessors); }
  bool isSoftware() const override { return false; }

  uint64_t allocate(size_t bytes, const std::string &) override {
    Driver::Address address = 0;
    must(driver_.alloc(&address, std::max<size_t>(bytes, 1)), "cuMemAlloc");
    return address;
  }
  void free(uint64_t address) override {
    must(driver_.free(address), "cuMemFree");
  }
  void copyIn(uint64_t to, const void *from, size_t bytes) override {
    must(driver_.toDevice(to, from, bytes), "cuMemcpyHtoD");
  }
  void copyOut(void *to, uint64_t from, size_t bytes) override {
    must(driver_.toHost(to, from, bytes), "cuMemcpyDtoH");
  }

  std::string launch(const cuda::Launch &launch,
                     const moec::KernelImage &image) override {
    if (int result = enqueue(launch, image, nullptr))
      return "launch: " + text(result);
    if (int result = driver_.synchronize())
      return text(result);
    return "";
  }

  double time(const std::vector<cuda::Launch> &launches,
              const std::vector<moec::KernelImage> &images,
              int repeats) override {
    // Loads the functions and warms up.
    for (size_t i = 0; i < launches.size(); ++i)
      must(enqueue(launches[i], images[i], stream_), "launch");
    must(driver_.streamSynchronize(stream_), "cuStreamSynchronize");
    void *graph = nullptr, *executable = nullptr, *begin = nullptr,
         *end = nullptr;
    must(driver_.beginCapture(stream_, 2), "cuStreamBeginCapture");
    for (size_t i = 0; i < launches.size(); ++i)
      must(enqueue(launches[i], images[i], stream_), "launch");
    must(driver_.endCapture(stream_, &graph), "cuStreamEndCapture");
    must(driver_.instantiate(&executable, graph, 0), "cuGraphInstantiate");
    must(driver_.eventCreate(&begin, 0), "cuEventCreate");
    must(driver_.eventCreate(&end, 0), "cuEventCreate");
    std::vector<double> seconds;
    for (int i = 0; i < repeats; ++i) {
      must(driver_.eventRecord(begin, stream_), "cuEventRecord");
      must(driver_.graphLaunch(executable, stream_), "cuGraphLaunch");
      must(driver_.eventRecord(end, stream_), "cuEventRecord");
      must(driver_.eventSynchronize(end), "cuEventSynchronize");
      float milliseconds = 0;
      must(driver_.eventTime(&milliseconds, begin, end), "cuEventElapsedTime");
      seconds.push_back(milliseconds / 1e3);
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  }

private:
  int ask(int attribute) const {
    int value = 0;
    driver_.attribute(&value, attribute, device_);
    return value;
  }
  std::string text(int result) const {
    const char *name = nullptr;
    driver_.errorName(result, &name);
    return name ? name : fmt::format("error {}", result);
  }
  /// Ends the process upon an error that no kernel has caused.
  void must(int result, const char *what) const {
    if (result == 0)
      return;
    fmt::print(stderr, "{}: {}\n", what, text(result));
    std::exit(1);
  }
  int enqueue(const cuda::Launch &launch, const moec::KernelImage &image,
              void *stream) {
    auto [entry, isNew] = functions_.try_emplace(image.cubin, nullptr);
    if (isNew) {
      void *module = nullptr;
      must(driver_.loadData(&module, image.cubin.data()), "cuModuleLoadData");
      must(driver_.getFunction(&entry->second, module,
                               launch.kernel.entry.c_str()),
           "cuModuleGetFunction");
    }
    // Larger dynamic shared memory must be requested.
    if (launch.sharedBytes + uint32_t(image.sharedBytes) > 48 * 1024)
      must(driver_.setFunction(entry->second, kMaxDynamicShared,
                               int(launch.sharedBytes)),
           "cuFuncSetAttribute");
    void *argument = const_cast<std::byte *>(launch.args.data());
    return driver_.launch(entry->second, launch.grid[0], launch.grid[1],
                          launch.grid[2], launch.threads, 1, 1,
                          launch.sharedBytes, stream, &argument, nullptr);
  }

  Driver driver_;
  int device_ = 0;
  void *stream_ = nullptr;
  std::map<std::string, void *> functions_; ///< Keys are cubins.
};
} // namespace

std::unique_ptr<Gpu> openDriverGpu(std::string &why) {
  return DriverGpu::open(why);
}

} // namespace moek::test
