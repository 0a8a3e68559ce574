//===- DriverGpu.cpp ------------------------------------------------------===//

#include "test/softgpu/DriverGpu.h"

#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>

namespace softgpu {

// Device attributes, with the driver's numbers.
static constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76,
                     kMaxDynamicShared = 8;

struct DriverGpu::Calls {
  int (*cuInit)(unsigned);
  int (*cuDeviceGet)(int *, int);
  int (*cuDeviceGetName)(char *, int, int);
  int (*cuDeviceGetAttribute)(int *, int, int);
  int (*cuDevicePrimaryCtxRetain)(void **, int);
  int (*cuCtxSetCurrent)(void *);
  int (*cuCtxSynchronize)();
  int (*cuGetErrorName)(int, const char **);
  int (*cuModuleLoadDataEx)(void **, const void *, unsigned, int *, void **);
  int (*cuModuleUnload)(void *);
  int (*cuModuleGetFunction)(void **, void *, const char *);
  int (*cuFuncSetAttribute)(void *, int, int);
  int (*cuMemAlloc_v2)(uint64_t *, size_t);
  int (*cuMemFree_v2)(uint64_t);
  int (*cuMemcpyHtoD_v2)(uint64_t, const void *, size_t);
  int (*cuMemcpyDtoH_v2)(void *, uint64_t, size_t);
  int (*cuMemsetD8_v2)(uint64_t, unsigned char, size_t);
  int (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned,
                        unsigned, unsigned, unsigned, void *, void **, void **);
};

DriverGpu::DriverGpu() : calls_(std::make_unique<Calls>()) {}
DriverGpu::~DriverGpu() = default;

std::string DriverGpu::errorName(int result) const {
  const char *name = nullptr;
  if (calls_->cuGetErrorName(result, &name) || !name)
    return fmt::format("error {}", result);
  return name;
}

moert::StatusOr<std::unique_ptr<DriverGpu>>
DriverGpu::open(const std::string &library) {
  auto refuse = [&](const std::string &what) {
    return moert::Status(moert::StatusCode::WrongMachine,
                         fmt::format("{}: {}", library, what));
  };
  void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle)
    return refuse(dlerror());
  std::unique_ptr<DriverGpu> gpu(new DriverGpu);
  Calls &calls = *gpu->calls_;
  const char *missing = nullptr;
  auto find = [&](const char *symbol, auto &call) {
    void *address = dlsym(handle, symbol);
    std::memcpy(&call, &address, sizeof(call));
    missing = address ? missing : symbol;
  };
#define FIND(symbol) find(#symbol, calls.symbol)
  FIND(cuInit);
  FIND(cuDeviceGet);
  FIND(cuDeviceGetName);
  FIND(cuDeviceGetAttribute);
  FIND(cuDevicePrimaryCtxRetain);
  FIND(cuCtxSetCurrent);
  FIND(cuCtxSynchronize);
  FIND(cuGetErrorName);
  FIND(cuModuleLoadDataEx);
  FIND(cuModuleUnload);
  FIND(cuModuleGetFunction);
  FIND(cuFuncSetAttribute);
  FIND(cuMemAlloc_v2);
  FIND(cuMemFree_v2);
  FIND(cuMemcpyHtoD_v2);
  FIND(cuMemcpyDtoH_v2);
  FIND(cuMemsetD8_v2);
  FIND(cuLaunchKernel);
#undef FIND
  if (missing)
    return refuse(fmt::format("no {}", missing));
  int device = 0, major = 0, minor = 0;
  char name[256] = {};
  void *context = nullptr;
  for (int result :
       {calls.cuInit(0), calls.cuDeviceGet(&device, 0),
        calls.cuDeviceGetName(name, sizeof(name) - 1, device),
        calls.cuDeviceGetAttribute(&major, kCapabilityMajor, device),
        calls.cuDeviceGetAttribute(&minor, kCapabilityMinor, device),
        calls.cuDevicePrimaryCtxRetain(&context, device),
        calls.cuCtxSetCurrent(context)})
    if (result)
      return refuse(gpu->errorName(result));
  gpu->name_ = name;
  gpu->arch_ = 10 * major + minor;
  return gpu;
}

moert::Status DriverGpu::load(const Program &program, const std::string &ptx) {
  // The driver's log says where PTX is wrong.
  enum { kErrorLog = 5, kErrorLogBytes = 6 };
  std::string log(8192, '\0');
  int options[] = {kErrorLog, kErrorLogBytes};
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
  void *module = nullptr;
  if (int result =
          calls_->cuModuleLoadDataEx(&module, ptx.c_str(), 2, options, values))
    return moert::Status(moert::StatusCode::InvalidFile,
                         fmt::format("{}: {}", errorName(result), log.c_str()));
  modules_[&program] = module;
  for (const auto &kernel : program.kernels) {
    void *function = nullptr;
    if (int result = calls_->cuModuleGetFunction(&function, module,
                                                 kernel->name.c_str()))
      return moert::Status(
          moert::StatusCode::InvalidFile,
          fmt::format("'{}': {}", kernel->name, errorName(result)));
    functions_[kernel.get()] = function;
  }
  return moert::Status::ok();
}

void DriverGpu::unload(const Program &program) {
  for (const auto &kernel : program.kernels)
    functions_.erase(kernel.get());
  if (auto it = modules_.find(&program); it != modules_.end()) {
    calls_->cuModuleUnload(it->second);
    modules_.erase(it);
  }
}

LaunchResult DriverGpu::launch(const Kernel &kernel, const LaunchShape &shape,
                               std::span<const void *const> arguments) {
  void *function = functions_.at(&kernel);
  std::vector<void *> pointers;
  for (const void *argument : arguments)
    pointers.push_back(const_cast<void *>(argument));
  int result = 0;
  if (shape.dynamicSharedBytes > 48 << 10)
    result = calls_->cuFuncSetAttribute(function, kMaxDynamicShared,
                                        int(shape.dynamicSharedBytes));
  if (!result)
    result = calls_->cuLaunchKernel(
        function, shape.grid[0], shape.grid[1], shape.grid[2], shape.threads[0],
        shape.threads[1], shape.threads[2], shape.dynamicSharedBytes, nullptr,
        pointers.data(), nullptr);
  if (!result)
    result = calls_->cuCtxSynchronize();
  LaunchResult out;
  if (result)
    out.finding =
        Finding{FindingKind::Trap,
                fmt::format("kernel '{}': {}", kernel.name, errorName(result))};
  return out;
}

uint64_t DriverGpu::allocate(uint64_t bytes) {
  uint64_t address = 0;
  return calls_->cuMemAlloc_v2(&address, bytes ? bytes : 1) ? 0 : address;
}
bool DriverGpu::free(uint64_t address) {
  return calls_->cuMemFree_v2(address) == 0;
}
bool DriverGpu::copyIn(uint64_t to, const void *from, uint64_t bytes) {
  return !bytes || calls_->cuMemcpyHtoD_v2(to, from, bytes) == 0;
}
bool DriverGpu::copyOut(void *to, uint64_t from, uint64_t bytes) {
  return !bytes || calls_->cuMemcpyDtoH_v2(to, from, bytes) == 0;
}
bool DriverGpu::fill(uint64_t to, uint8_t value, uint64_t bytes) {
  return !bytes || calls_->cuMemsetD8_v2(to, value, bytes) == 0;
}

} // namespace softgpu
