//===- EntryModule.cpp - Driver calls: modules and launches ---------------===//

#include "test/softgpu/Image.h"
#include "test/softgpu/cuda/Abi.h"
#include "test/softgpu/cuda/Launch.h"

#include <cstring>
#include <fmt/format.h>

using namespace softcuda;

namespace {
// Function attributes and JIT options, with the driver's numbers.
enum {
  kMaxThreads = 0,
  kSharedBytes = 1,
  kLocalBytes = 3,
  kRegisters = 4,
  kPtxVersion = 5,
  kBinaryVersion = 6,
  kMaxDynamicShared = 8,
  kCarveout = 9
};
constexpr int kErrorLog = 5, kErrorLogBytes = 6;
/// The interpreter has no register count, so it assumes the largest of our
/// kernels.
constexpr int kAssumedRegisters = 128;

/// Returns the text, or an ELF file with its own length.
std::string_view imageAt(const void *image) {
  auto bytes = static_cast<const char *>(image);
  if (std::memcmp(bytes, "\177ELF", 4) != 0)
    return bytes;
  uint64_t sections = 0;
  uint16_t size = 0, count = 0;
  std::memcpy(&sections, bytes + 0x28, 8);
  std::memcpy(&size, bytes + 0x3A, 2);
  std::memcpy(&count, bytes + 0x3C, 2);
  // After the section headers come a cubin's program headers.
  uint64_t programs = 0;
  uint16_t programSize = 0, programCount = 0;
  std::memcpy(&programs, bytes + 0x20, 8);
  std::memcpy(&programSize, bytes + 0x36, 2);
  std::memcpy(&programCount, bytes + 0x38, 2);
  return {bytes,
          std::max<uint64_t>(sections + uint64_t(size) * count,
                             programs + uint64_t(programSize) * programCount)};
}

void writeLog(const std::string &text, unsigned count, const int *options,
              void *const *values) {
  char *log = nullptr;
  size_t bytes = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == kErrorLog)
      log = static_cast<char *>(values[i]);
    if (options[i] == kErrorLogBytes)
      bytes = reinterpret_cast<size_t>(values[i]);
  }
  if (!log || !bytes)
    return;
  size_t length = std::min(text.size(), bytes - 1);
  std::memcpy(log, text.data(), length);
  log[length] = '\0';
}

int load(const char *symbol, CUmodule *out, const void *data, unsigned count,
         const int *options, void *const *values) {
  if (auto refused = refuseInCapture(symbol))
    return *refused;
  if (!out || !data)
    return kInvalidValue;
  Gpu &gpu = *currentGpu();
  std::string_view image = imageAt(data);
  auto kind = softgpu::identifyImage(image);
  if (!kind) {
    writeLog(kind.status().message(), count, options, values);
    return kInvalidImage;
  }
  int version = state().options.driverVersion;
  if (!softgpu::runsOn(*kind, gpu.options.gpu.arch, version)) {
    if (kind->kind == softgpu::ImageKind::Cubin)
      return kNoBinaryForGpu;
    return softgpu::runsOn(*kind, gpu.options.gpu.arch, 99000)
               ? kUnsupportedPtxVersion
               : kInvalidPtx;
  }
  std::string ptx(image);
  softgpu::Resources resources;
  if (kind->kind == softgpu::ImageKind::Cubin) {
    const CubinSource *known = sourceOfCubin(image);
    if (!known) {
      state().find(
          "a cubin was loaded whose PTX is unknown (softcuda::addCubin)");
      return kNotSupported;
    }
    ptx = known->ptx;
    resources = known->resources;
  }
  auto module = std::make_unique<Module>();
  module->gpu = &gpu;
  {
    std::lock_guard running(gpu.running);
    auto program = gpu.soft->load(ptx);
    if (!program) {
      writeLog(program.status().message(), count, options, values);
      state().find(program.status().message());
      return kInvalidPtx;
    }
    module->program = std::move(*program);
  }
  for (const auto &kernel : module->program->kernels)
    module->functions.push_back(std::make_unique<Function>(
        Function{&gpu, kernel.get(), {}, resources}));
  *out = module.get();
  state().modules[module.get()] = std::move(module);
  return kSuccess;
}

Module *moduleOf(CUmodule handle) {
  auto it = state().modules.find(handle);
  return it == state().modules.end() ? nullptr : it->second.get();
}

int launchOn(CUstream handle, CUfunction function,
             const softgpu::LaunchShape &shape, void **parameters,
             void **extra) {
  Stream *stream = streamOf(handle);
  Function *kernel = functionOf(function);
  if (!stream || !kernel)
    return kInvalidHandle;
  if (extra)
    return kNotSupported;
  if (kernel->gpu != stream->gpu)
    return kInvalidHandle;
  if (stream->capture && !kernel->wasLaunched)
    state().find(fmt::format("kernel '{}' is launched for the first time in a "
                             "capture, where a driver may have to load it",
                             kernel->kernel->name));
  auto work = kernelWork(*kernel, shape, parameters);
  if (!work.run)
    return kInvalidValue;
  kernel->wasLaunched = true;
  return submit(*stream, std::move(work));
}
} // namespace

namespace softcuda {
Function *functionOf(void *handle) {
  for (auto &[key, module] : state().modules)
    for (auto &function : module->functions)
      if (function.get() == handle)
        return function.get();
  return nullptr;
}

static Result errorOf(softgpu::FindingKind kind) {
  using Kind = softgpu::FindingKind;
  switch (kind) {
  case Kind::OutOfBounds:
  case Kind::UseAfterFree:
  case Kind::ReadOnly:
    return kIllegalAddress;
  case Kind::Misaligned:
    return kMisaligned;
  case Kind::Endless:
  case Kind::BarrierDeadlock:
    return kTimeout;
  default:
    return kLaunchFailed;
  }
}

/// Returns the addresses by which operations are ordered: for mapped memory the
/// host's.
static void toOrdered(Gpu &gpu, softgpu::Ranges &ranges) {
  softgpu::Ranges out;
  for (softgpu::Range range : ranges.settled()) {
    softgpu::Allocation *at = gpu.soft->memory().lookup(range.begin);
    uint64_t shift =
        at && at->isHost ? reinterpret_cast<uint64_t>(at->host) - at->base : 0;
    out.add(range.begin + shift, range.end + shift);
  }
  ranges = std::move(out);
}

/// Runs some of a launch's blocks and predicts the time of all.
static softgpu::LaunchResult
runByClock(Gpu &gpu, const Function &function,
           const softgpu::LaunchShape &shape,
           std::span<const void *const> arguments) {
  const Options &options = state().options;
  softgpu::Recording recording(*softgpu::findGpuModel(options.clock));
  recording.l2 = &gpu.l2;
  recording.budget = options.clockBudget;
  recording.warm = options.warm;
  recording.blocks = softgpu::sampleOrder(uint64_t(shape.grid[0]) *
                                          shape.grid[1] * shape.grid[2]);
  softgpu::LaunchResult result =
      gpu.soft->launch(*function.kernel, shape, arguments, nullptr, &recording);
  if (result.finding)
    return result;
  softgpu::LaunchTime time =
      softgpu::timeOf(*function.kernel, shape, function.resources, recording);
  state().timeline->pass(time.seconds);
  std::lock_guard lock(state().log);
  state().times.push_back(time);
  return result;
}

Work kernelWork(Function &function, const softgpu::LaunchShape &shape,
                void *const *parameters) {
  const softgpu::Kernel &kernel = *function.kernel;
  Work work;
  uint64_t allowed = function.dynamicShared.value_or(
      std::max<int64_t>(int64_t(48 << 10) - int64_t(kernel.sharedBytes), 0));
  if (shape.dynamicSharedBytes > allowed) {
    state().find(fmt::format("kernel '{}' with {} bytes of dynamic shared "
                             "memory and {} of static; cuFuncSetAttribute "
                             "allows it {}",
                             kernel.name, shape.dynamicSharedBytes,
                             kernel.sharedBytes, allowed));
    return work;
  }
  if (auto wrong = function.gpu->soft->checkLimits(kernel, shape)) {
    state().find(wrong->text);
    return work;
  }
  if (!parameters && !kernel.params.empty())
    return work;
  // Parameters are read now; the caller may change them afterwards.
  std::vector<std::vector<uint8_t>> values;
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    auto from = static_cast<const uint8_t *>(parameters[i]);
    values.emplace_back(from, from + kernel.params[i].bytes);
  }
  work.kind = Work::Kernel;
  work.gpu = function.gpu;
  work.function = &function;
  work.name = fmt::format("kernel '{}'", kernel.name);
  work.run = [&kernel, &function, gpu = function.gpu, shape,
              values = std::move(values)](Operation &operation) {
    State &s = state();
    {
      std::lock_guard lock(s.log);
      if (gpu->error)
        return;
    }
    std::vector<const void *> pointers;
    for (const auto &value : values)
      pointers.push_back(value.data());
    std::unique_lock running(gpu->running);
    softgpu::AccessedRanges touched;
    bool hasClock = !s.options.clock.empty();
    softgpu::LaunchResult result =
        hasClock ? runByClock(*gpu, function, shape, pointers)
                 : gpu->soft->launch(kernel, shape, pointers, &touched);
    toOrdered(*gpu, touched.reads);
    toOrdered(*gpu, touched.writes);
    running.unlock();
    if (!hasClock)
      s.timeline->pass(double(result.counters.total()) / 1e9);
    {
      std::lock_guard lock(s.log);
      ++s.totals.launches;
      ++s.totals.kernelLaunches[kernel.name];
      s.totals.kernels[kernel.name] += result.counters;
      if (result.finding) {
        s.findings.push_back(result.finding->text);
        gpu->error = errorOf(result.finding->kind);
        return;
      }
    }
    touch(operation, touched);
  };
  return work;
}
} // namespace softcuda

extern "C" {

int cuModuleLoadData(CUmodule *module, const void *image) {
  SOFTCUDA_BEGIN(true);
  return load(__func__, module, image, 0, nullptr, nullptr);
}
int cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                       int *options, void **values) {
  SOFTCUDA_BEGIN(true);
  return load(__func__, module, image, count, options, values);
}
int cuModuleUnload(CUmodule module) {
  SOFTCUDA_BEGIN(true);
  if (auto refused = refuseInCapture(__func__))
    return *refused;
  Module *found = moduleOf(module);
  if (!found)
    return kInvalidHandle;
  drain(*found->gpu);
  {
    std::lock_guard running(found->gpu->running);
    for (const auto &variable : found->program->variables)
      found->gpu->soft->memory().free(variable.address);
  }
  state().modules.erase(module);
  return kSuccess;
}
int cuModuleGetFunction(CUfunction *function, CUmodule module,
                        const char *name) {
  SOFTCUDA_BEGIN(true);
  Module *found = moduleOf(module);
  if (!found)
    return kInvalidHandle;
  for (auto &each : found->functions)
    if (each->kernel->name == name) {
      *function = each.get();
      return kSuccess;
    }
  return kNotFound;
}
int cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module,
                         const char *name) {
  SOFTCUDA_BEGIN(true);
  Module *found = moduleOf(module);
  if (!found)
    return kInvalidHandle;
  for (const auto &variable : found->program->variables)
    if (variable.name == name) {
      if (address)
        *address = variable.address;
      if (bytes)
        *bytes = variable.bytes;
      return kSuccess;
    }
  return kNotFound;
}

int cuFuncGetAttribute(int *value, int attribute, CUfunction handle) {
  SOFTCUDA_BEGIN(true);
  Function *function = functionOf(handle);
  if (!function)
    return kInvalidHandle;
  const softgpu::Kernel &kernel = *function->kernel;
  int arch = function->gpu->options.gpu.arch;
  switch (attribute) {
  case kMaxThreads:
    *value = kernel.maxThreads[0]
                 ? int(kernel.maxThreads[0] * kernel.maxThreads[1] *
                       kernel.maxThreads[2])
                 : 1024;
    break;
  case kSharedBytes:
    *value = int(kernel.sharedBytes);
    break;
  case kLocalBytes:
    *value = int(kernel.localBytes);
    break;
  case kRegisters:
    *value = kAssumedRegisters;
    break;
  case kPtxVersion:
  case kBinaryVersion:
    *value = arch;
    break;
  case kMaxDynamicShared:
    *value = int(function->dynamicShared.value_or(48 << 10));
    break;
  default:
    *value = 0;
  }
  return kSuccess;
}
int cuFuncSetAttribute(CUfunction handle, int attribute, int value) {
  SOFTCUDA_BEGIN(true);
  Function *function = functionOf(handle);
  if (!function)
    return kInvalidHandle;
  if (attribute == kCarveout)
    return kSuccess;
  uint64_t most = softgpu::sharedLimit(function->gpu->options.gpu.arch);
  if (attribute != kMaxDynamicShared || value < 0 ||
      uint64_t(value) + function->kernel->sharedBytes > most)
    return kInvalidValue;
  function->dynamicShared =
      std::max(function->dynamicShared.value_or(0), uint32_t(value));
  return kSuccess;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction handle,
                                                int threads,
                                                size_t dynamicShared) {
  SOFTCUDA_BEGIN(true);
  Function *function = functionOf(handle);
  if (!function)
    return kInvalidHandle;
  if (threads <= 0 || threads > 1024)
    return kInvalidValue;
  int arch = function->gpu->options.gpu.arch;
  bool isServer = arch == 80 || arch == 90 || arch == 100 || arch == 103;
  int warps = (threads + 31) / 32;
  uint64_t shared = function->kernel->sharedBytes + dynamicShared + 1024;
  int most = arch < 80 ? 16 : isServer ? 32 : 24;
  most = std::min(most, (arch < 80 ? 32 : isServer ? 64 : 48) / warps);
  most = std::min(most, int((softgpu::sharedLimit(arch) + 1024) / shared));
  *blocks = std::min(most, 65536 / (kAssumedRegisters * 32 * warps));
  return kSuccess;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
                                                         CUfunction handle,
                                                         int threads,
                                                         size_t dynamicShared,
                                                         unsigned) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, handle, threads,
                                                     dynamicShared);
}

int cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY,
                   unsigned gridZ, unsigned blockX, unsigned blockY,
                   unsigned blockZ, unsigned sharedBytes, CUstream stream,
                   void **parameters, void **extra) {
  SOFTCUDA_BEGIN(true);
  return launchOn(
      stream, function,
      {{gridX, gridY, gridZ}, {blockX, blockY, blockZ}, sharedBytes},
      parameters, extra);
}
int cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction function,
                     void **parameters, void **extra) {
  SOFTCUDA_BEGIN(true);
  // A launch that may begin before the one before it has ended must wait for
  // that by itself; it then runs as any other.
  const Function *kernel = functionOf(function);
  for (unsigned i = 0; kernel && i < c->numAttrs; ++i)
    if (c->attrs[i].id == kProgrammaticSerialization &&
        !std::ranges::any_of(
            kernel->kernel->texts, [](const std::string &text) {
              return text.find("griddepcontrol.wait") != std::string::npos;
            }))
      state().find(fmt::format("kernel '{}' may begin before the launch before "
                               "it has ended, and does not wait for it",
                               kernel->kernel->name));
  ++state().totals.overlappedLaunches;
  return launchOn(c->hStream, function,
                  {{c->gridDimX, c->gridDimY, c->gridDimZ},
                   {c->blockDimX, c->blockDimY, c->blockDimZ},
                   c->sharedMemBytes},
                  parameters, extra);
}

} // extern "C"
