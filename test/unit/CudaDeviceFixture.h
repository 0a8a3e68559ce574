//===- CudaDeviceFixture.h - The sample plan on GPUs ------------*- C++ -*-===//
//
// On software GPUs, or with --driver LIBRARY on this machine's: then the
// architecture is that GPU's, and tests of what only software GPUs report or do
// are skipped.
//

#ifndef MOE_TEST_UNIT_CUDADEVICEFIXTURE_H
#define MOE_TEST_UNIT_CUDADEVICEFIXTURE_H

#include "kernels/Registry.h"
#include "runtime/device/cuda/CudaDriver.h"
#include "test/softgpu/cuda/SoftCuda.h"
#include "test/support/GpuPlan.h"
#include "test/support/OneSequence.h"
#include "test/support/SamplePlan.h"
#include "test/support/SplitPlan.h"
#include "tools/common/Remedies.h"

#include <cmath>
#include <filesystem>
#include <gmock/gmock.h>

namespace moetest {

using namespace moert;
using softcuda::Timing;

/// The driver's library that these tests open.
std::string &driverLibrary();
inline bool isOnDriver() { return driverLibrary() != MOE_SOFTCUDA; }
/// Ends a test that needs a software GPU.
#define SOFTWARE_ONLY()                                                        \
  if (isOnDriver())                                                            \
  GTEST_SKIP() << "needs a software GPU"

/// Compute capability of the GPU that plans are for: 89 of software GPUs.
inline int planArch() {
  static const int arch = [] {
    if (isOnDriver())
      if (auto driver = CudaDriver::load(driverLibrary()))
        if (auto gpu = driver->describe(0))
          return gpu->arch;
    return 89;
  }();
  return arch;
}
inline const std::vector<int32_t> tokens = {3,  17, 39, 0,  8, 8,
                                            21, 30, 5,  11, 2, 26};

/// Created once for all tests; caches its results beside them.
inline moec::KernelCompiler *compiler() {
  static std::unique_ptr<moec::KernelCompiler> made = [] {
    std::unique_ptr<moec::KernelCompiler> result;
    if (auto nvrtc = moec::Nvrtc::open()) {
      auto self = std::filesystem::read_symlink("/proc/self/exe");
      result = std::make_unique<moec::KernelCompiler>(
          *std::move(nvrtc), (self.parent_path() / "cuda-kernels").string());
    }
    return result;
  }();
  return made.get();
}

inline EngineOptions onSoftCuda() {
  EngineOptions options;
  options.threads = 1;
  options.makeDevices = [](const Plan &plan, const WeightFiles &files,
                           DeviceOptions devices) {
    devices.cudaLibrary = driverLibrary();
    return makeDevices(plan, files, std::move(devices));
  };
  return options;
}

/// Compares a row, relative to its largest logit.
inline void expectRow(std::span<const float> actual,
                      const std::vector<double> &expected, size_t position) {
  ASSERT_EQ(actual.size(), expected.size());
  double scale = 0;
  for (double value : expected)
    scale = std::max(scale, std::abs(value));
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], 1e-4 * scale)
        << "position " << position << ", token " << i;
}

class CudaDeviceFixture : public ::testing::Test {
protected:
  void SetUp() override {
    if (!isOnDriver() && !softgpu::isSoftGpuSupported())
      GTEST_SKIP() << "the software GPU needs a CPU with AVX2, FMA and F16C";
    if (!compiler())
      GTEST_SKIP() << "no NVRTC";
    start();
  }
  void TearDown() override {
    EXPECT_THAT(softcuda::findings(), testing::IsEmpty());
    EXPECT_THAT(softcuda::live(), testing::IsEmpty());
  }

  /// Restarts the driver, with one GPU or more.
  void start(int arch = planArch(), int driverVersion = 13000,
             size_t gpus = 1) {
    softcuda::Options options;
    options.timing = timing();
    options.driverVersion = driverVersion;
    options.gpus.resize(gpus);
    for (softcuda::GpuOptions &gpu : options.gpus)
      gpu.gpu.arch = arch;
    softcuda::reset(std::move(options));
  }

  virtual Timing timing() const = 0;
  /// Returns whether neighbouring instructions are fused into one launch.
  virtual bool isFused() const { return false; }

  fb::PlanT &plan() { return sample_.builder.plan; }
  /// Writes the sample plan, possibly modified by the test, with code for its
  /// GPU.
  std::string write(int arch = planArch()) {
    return write(sample_.builder, arch);
  }
  std::string write(PlanBuilder &builder, int arch) {
    if (builder.plan.devices.size() == 1)
      makeGpu(builder.plan, 0, arch);
    addLaunches(builder.plan, *compiler(), {arch}, isFused());
    for (const auto &module : builder.plan.modules)
      for (const auto &image : module->images)
        softcuda::addCubin({reinterpret_cast<const char *>(image->cubin.data()),
                            image->cubin.size()},
                           image->ptx);
    return builder.write(folder_);
  }
  /// Moves experts to the CPU and everything else to a GPU with `queues`
  /// queues.
  void split(uint32_t queues) {
    splitPlan(plan(), apartFromExperts);
    if (queues > 1) {
      plan().queues.push_back(std::make_unique<fb::QueueT>());
      plan().queues[2]->device = 1;
      plan().queues[2]->kind = fb::QueueKind::Copy;
    }
    makeGpu(plan(), 1, planArch(), queues);
  }
  static uint32_t apartFromExperts(const fb::PhaseT &,
                                   const fb::InstructionT &instruction) {
    auto op = moek::OpCode(instruction.op);
    return op == moek::OpCode::ExpertsGateUp ||
                   op == moek::OpCode::ExpertsLinear
               ? 0
               : 1;
  }
  /// Moves experts to the second GPU and everything else to the first.
  void splitGpus() {
    splitPlan(plan(), [](const auto &phase, const auto &instruction) {
      return 1 - apartFromExperts(phase, instruction);
    });
    makeGpu(plan(), 0, planArch());
    makeGpu(plan(), 1, planArch());
  }
  std::string failureOf(const std::string &path, StatusCode code) {
    auto one = OneSequence::open(path, onSoftCuda());
    EXPECT_FALSE(one.isOk());
    EXPECT_EQ(one.status().code(), code);
    return moetool::fullMessage(one.status());
  }
  void expectPrefill(OneSequence &one) {
    auto expected = sample_.reference(tokens);
    int32_t next = 0;
    Status status = one.engine->appendAll(
        one.sequence, tokens,
        [&](size_t, int32_t position, std::span<const float> logits) {
          EXPECT_EQ(position, next++);
          expectRow(logits, expected[size_t(position)], size_t(position));
          return Status::ok();
        });
    EXPECT_TRUE(status.isOk()) << status.message();
    EXPECT_EQ(next, int32_t(tokens.size()));
  }
  void expectDecode(OneSequence &one, size_t from, size_t count) {
    auto expected = sample_.reference(tokens);
    for (size_t t = from; t < from + count; ++t) {
      auto logits = one.append(tokens[t]);
      ASSERT_TRUE(logits.isOk()) << logits.status().message();
      expectRow(*logits, expected[t], t);
    }
  }
  OneSequence open(const EngineOptions &options = onSoftCuda()) {
    auto one = OneSequence::open(write(), options);
    if (!one)
      throw std::runtime_error(one.status().message());
    return *std::move(one);
  }

  TempDir folder_;
  SamplePlan sample_{"ref"};
};

} // namespace moetest

#endif // MOE_TEST_UNIT_CUDADEVICEFIXTURE_H
