//===- CudaDevice.h - A GPU that executes a plan's queues -------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDADEVICE_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDADEVICE_H

#include "runtime/device/Device.h"
#include "runtime/device/StepBlock.h"
#include "runtime/device/cuda/CudaLaunches.h"
#include "runtime/device/cuda/CudaModules.h"
#include "runtime/device/cuda/CudaNeed.h"
#include "runtime/device/cuda/CudaQueue.h"
#include "runtime/device/cuda/CudaWeights.h"

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace moert {

class CudaDevice final : public Device {
public:
  /// Creates device number `index` of `plan`, which `files` and it must
  /// outlive, on the driver's GPU number `ordinal`.
  CudaDevice(const Plan &plan, uint32_t index, const WeightFiles &files,
             std::shared_ptr<const CudaDriver> driver, int ordinal,
             std::shared_ptr<const CudaLinks> links, CudaOptions options = {});
  ~CudaDevice() override;

  /// Fails with WrongMachine if there is no such GPU.
  Status reserve() override;
  Status load(const LoadProgress &progress) override;
  Status bind(const ProvenPhase &phase, std::span<std::byte *const> arenas,
              StepEvents *events) override;
  void unbind() override;
  std::byte *hostArena() const override { return nullptr; }
  std::string hardware() const override { return gpu_.name; }
  int32_t threads() const override { return 0; }
  bool borrowsCaller() const override { return false; }

  Status prepare(uint32_t phase, const moek::Step &step,
                 const StepControl &control) override;
  Status enqueue(uint32_t phase, const moek::Step &step,
                 const StepControl &control) override;
  Status wait() override;
  Status runAlone(uint32_t phase, uint32_t instruction, const moek::Step &step,
                  const std::atomic<bool> *cancel) override;

  StatusOr<std::span<const std::byte>> read(DeviceRegion from) override;
  Status write(DeviceRegion to, std::span<const std::byte> bytes) override;
  Status copy(DeviceRegion from, uint64_t to) override;

private:
  using Memory = CudaOwned<cu::DevicePointer>;
  /// A phase that is bound.
  struct Bound {
    const fb::Phase *table;
    CudaPhase queues;
  };

  const fb::Device &table() const;
  /// Returns text such as "gpu0 (NVIDIA GeForce RTX 4090)".
  std::string name() const;
  Status checkRoom() const;
  StatusOr<Memory> allocate(uint64_t bytes) const;
  Status loadConstants();
  /// Returns the device's options, with its name in notes.
  CudaOptions queueOptions() const;
  /// Makes accessible to the GPU those arenas of other devices that this
  /// device's instructions use, and the pages for copies between GPUs.
  Status mapArenas(std::span<std::byte *const> arenas);
  /// Finds the streamed weights in the host's memory, and makes the pages
  /// accessible to the GPU that it reads.
  Status mapWeights();
  /// Returns the GPU's address of host memory. Its pages must not contain other
  /// memory that is pinned separately.
  StatusOr<cu::DevicePointer> mapHostMemory(std::byte *memory, uint64_t bytes,
                                            std::string_view what);
  /// Pins pages of the host and returns their address on the GPU.
  StatusOr<cu::DevicePointer> reach(std::byte *pages, uint64_t bytes,
                                    std::string_view what);
  /// Returns a function that names instructions of `phase`, and the step.
  PlaceNamer namerOf(const Bound &phase, const moek::Step &step) const;
  cu::DevicePointer addressOf(const DeviceRegion &region) const;
  cu::Stream stream() const { return queues_.begin()->second->stream(); }
  /// Waits for the work that was put on stream() between steps.
  Status finish(std::string_view action) const;
  Status check(cu::Result result, std::string_view action) const;

  const Plan &plan_;
  const uint32_t index_;
  const WeightFiles &files_;
  const StepRoom room_;
  const CudaWeights weights_;
  const CudaNeed need_;
  const std::shared_ptr<const CudaDriver> driver_;
  const int ordinal_;
  const std::shared_ptr<const CudaLinks> links_; ///< Shared by the plan's GPUs.
  const CudaOptions options_;
  CudaGpu gpu_;
  std::unique_ptr<CudaContext> context_; ///< Set by reserve().

  /// Everything that must be destroyed while the context exists.
  struct Resources {
    Memory arena, kv, workspace, weights, constants;
    CudaOwned<void *> staging; ///< For read() and write().
    CudaModules modules;
    std::vector<Bound> phases;
    std::vector<CudaOwned<void *>> reached; ///< Pages that this device pinned.
  };
  std::unique_ptr<Resources> own_;
  std::mutex reaching_; ///< Guards Resources::reached while weights are pinned.
  /// Indexed by queue number of the plan.
  std::map<uint32_t, std::unique_ptr<CudaQueue>> queues_;
  CudaMemory memory_;
  std::vector<std::byte> large_; ///< Result of read() if larger than staging.
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDADEVICE_H
