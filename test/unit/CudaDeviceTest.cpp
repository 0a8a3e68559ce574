// The sample plan on a GPU, in software, against float64; and what goes wrong.

#include "kernels/Registry.h"
#include "runtime/MemoryFit.h"
#include "test/softgpu/cuda/SoftCuda.h"
#include "test/support/GpuPlan.h"
#include "test/support/OneSequence.h"
#include "test/support/SamplePlan.h"
#include "test/support/SplitPlan.h"

#include <cmath>
#include <filesystem>
#include <gmock/gmock.h>

using namespace moert;
using moetest::OneSequence;
using moetest::SamplePlan;
using moetest::TempDir;
using softcuda::Timing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

constexpr int kArch = 89;
const std::vector<int32_t> tokens = {3, 17, 39, 0, 8, 8, 21, 30, 5, 11, 2, 26};

/// Compiled once for all tests, and kept beside them.
moec::KernelCompiler *compiler() {
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

EngineOptions onSoftCuda() {
  EngineOptions options;
  options.threads = 1;
  options.makeDevices = [](const Plan &plan, const WeightFiles &files,
                           DeviceOptions devices) {
    devices.cudaLibrary = MOE_SOFTCUDA;
    return makeDevices(plan, files, std::move(devices));
  };
  return options;
}

/// Relative to the row's largest logit.
void expectRow(std::span<const float> actual,
               const std::vector<double> &expected, size_t position) {
  ASSERT_EQ(actual.size(), expected.size());
  double scale = 0;
  for (double value : expected)
    scale = std::max(scale, std::abs(value));
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], 1e-4 * scale)
        << "position " << position << ", token " << i;
}

class CudaDeviceTest : public ::testing::TestWithParam<Timing> {
protected:
  void SetUp() override {
    if (!softgpu::isSoftGpuSupported())
      GTEST_SKIP() << "the software GPU needs a CPU with AVX2, FMA and F16C";
    if (!compiler())
      GTEST_SKIP() << "no NVRTC";
    start();
  }
  void TearDown() override {
    EXPECT_THAT(softcuda::findings(), IsEmpty());
    EXPECT_THAT(softcuda::live(), IsEmpty());
  }

  /// Starts anew, with one GPU.
  void start(int arch = kArch, int driverVersion = 13000) {
    softcuda::Options options;
    options.timing = GetParam();
    options.driverVersion = driverVersion;
    options.gpus[0].gpu.arch = arch;
    softcuda::reset(std::move(options));
  }

  fb::PlanT &plan() { return sample_.builder.plan; }
  /// The sample plan, or what a test made of it, with code for its GPU.
  std::string write(int arch = kArch) {
    if (plan().devices.size() == 1)
      moetest::makeGpu(plan(), 0, arch);
    moetest::addLaunches(plan(), *compiler(), {arch});
    for (const auto &module : plan().modules)
      for (const auto &image : module->images)
        softcuda::addCubin({reinterpret_cast<const char *>(image->cubin.data()),
                            image->cubin.size()},
                           image->ptx);
    return sample_.builder.write(folder_);
  }
  /// Experts on the CPU, all else on a GPU with `queues` queues.
  void split(uint32_t queues) {
    moetest::splitPlan(plan(), [](const auto &, const fb::InstructionT &i) {
      auto op = moek::OpCode(i.op);
      return op == moek::OpCode::ExpertsGateUp ||
                     op == moek::OpCode::ExpertsLinear
                 ? 0u
                 : 1u;
    });
    if (queues > 1) {
      plan().queues.push_back(std::make_unique<fb::QueueT>());
      plan().queues[2]->device = 1;
      plan().queues[2]->kind = fb::QueueKind::Copy;
    }
    moetest::makeGpu(plan(), 1, kArch, queues);
  }
  std::string failureOf(const std::string &path, StatusCode code) {
    auto one = OneSequence::open(path, onSoftCuda());
    EXPECT_FALSE(one.isOk());
    EXPECT_EQ(one.status().code(), code);
    return one.status().message();
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
  OneSequence open() {
    auto one = OneSequence::open(write(), onSoftCuda());
    if (!one)
      throw std::runtime_error(one.status().message());
    return *std::move(one);
  }

  TempDir folder_;
  SamplePlan sample_{"ref"};
};

INSTANTIATE_TEST_SUITE_P(Timings, CudaDeviceTest,
                         ::testing::Values(Timing::Early, Timing::Late),
                         [](const auto &info) {
                           return info.param == Timing::Early ? "Early"
                                                              : "Late";
                         });

TEST_P(CudaDeviceTest, PrefillInUbatchesMatchesFloat64) {
  auto one = open();
  expectPrefill(one);
}

TEST_P(CudaDeviceTest, DecodeMatchesFloat64) {
  auto one = open();
  expectDecode(one, 0, 4);
}

// A first run is of single launches, so that a capture loads nothing.
TEST_P(CudaDeviceTest, APhaseIsCapturedOnceAndNothingIsAllocatedInSteps) {
  auto one = open();
  uint64_t allocations = softcuda::totals().allocations;
  expectDecode(one, 0, 1);
  EXPECT_EQ(softcuda::totals().captures, 0u);
  expectDecode(one, 1, 3);
  softcuda::Totals totals = softcuda::totals();
  EXPECT_EQ(totals.captures, 2u); // decode and logits
  EXPECT_EQ(totals.graphLaunches, 6u);
  EXPECT_EQ(totals.allocations, allocations);
}

TEST_P(CudaDeviceTest, AFileTakesTheCacheAlong) {
  sample_.addSequences(2);
  auto one = open();
  ASSERT_TRUE(one.append({tokens.data(), 3}).isOk());
  std::string path = folder_.path() + "/saved";
  ASSERT_TRUE(one.sequence.save(path).isOk());
  StatusOr<Sequence> restored = one.engine->restore(path);
  ASSERT_TRUE(restored.isOk()) << restored.status().message();
  auto logits = one.engine->append(*restored, tokens[3]);
  ASSERT_TRUE(logits.isOk()) << logits.status().message();
  expectRow(*logits, sample_.reference(tokens)[3], 3);
}

TEST_P(CudaDeviceTest, SequencesInOneStep) {
  sample_.addSequences(2);
  auto one = open();
  Sequence other = one.engine->sequence();
  auto expected = sample_.reference(tokens);
  for (size_t t = 0; t < 3; ++t) {
    Request requests[2] = {{&one.sequence, {&tokens[t], 1}},
                           {&other, {&tokens[t], 1}}};
    Status status = one.engine->step(
        requests, [&](size_t, int32_t, std::span<const float> logits) {
          expectRow(logits, expected[t], t);
          return Status::ok();
        });
    ASSERT_TRUE(status.isOk()) << status.message();
    EXPECT_TRUE(requests[0].status.isOk()) << requests[0].status.message();
    EXPECT_TRUE(requests[1].status.isOk()) << requests[1].status.message();
  }
}

TEST_P(CudaDeviceTest, ExpertsOnTheCpu) {
  split(1);
  auto one = open();
  expectDecode(one, 0, 4);
}

TEST_P(CudaDeviceTest, PrefillWithExpertsOnTheCpuAndAQueueOfCopies) {
  split(2);
  auto one = open();
  expectPrefill(one);
}

TEST_P(CudaDeviceTest, LoadingTellsOfAllItsWeights) {
  split(1);
  std::string path = write();
  EngineOptions options = onSoftCuda();
  uint64_t told = 0, last = 0, all = 0;
  options.loading = [&](std::string_view device, uint64_t done, uint64_t of) {
    EXPECT_EQ(device, "gpu1");
    EXPECT_GT(done, last);
    last = done;
    all = of;
    ++told;
  };
  auto one = OneSequence::open(path, options);
  ASSERT_TRUE(one.isOk()) << one.status().message();
  EXPECT_GT(told, 0u);
  EXPECT_EQ(last, all);
  EXPECT_GE(softcuda::totals().bytesToDevice, all);
}

// What is in a GPU's memory need not be in the host's.
TEST_P(CudaDeviceTest, TheHostHoldsWhatCpusRead) {
  split(1);
  auto plan = Plan::load(write());
  ASSERT_TRUE(plan.isOk()) << plan.status().message();
  uint64_t experts = 0;
  for (const fb::Residency &residency : sample_.builder.plan.residency)
    if (residency.device() == 0) {
      const fb::WeightT &w = *sample_.builder.plan.weights[residency.weight()];
      experts += 4 * uint64_t(w.outer * w.rows * w.cols);
    }
  MemoryFit fit = memoryFit(*plan, 1, /*copyWeights=*/false, {});
  EXPECT_GT(experts, 0u);
  EXPECT_EQ(fit.need.weights, experts);
  fit.limit = {fit.need.resident(), true}; // None of them fits.
  EXPECT_GT(pagedBytesPerToken(*plan, fit), 0);
  EXPECT_LE(pagedBytesPerToken(*plan, fit), double(experts));
}

//===----------------------------------------------------------------------===//
// Images, and what goes wrong
//===----------------------------------------------------------------------===//

TEST_P(CudaDeviceTest, CubinOfTheSameGeneration) {
  std::string path = write(80);
  start(86, 12000); // no driver for its PTX
  auto one = OneSequence::open(path, onSoftCuda());
  ASSERT_TRUE(one.isOk()) << one.status().message();
  expectDecode(*one, 0, 1);
}

TEST_P(CudaDeviceTest, PtxForALaterGeneration) {
  std::string path = write();
  start(90);
  auto one = OneSequence::open(path, onSoftCuda());
  ASSERT_TRUE(one.isOk()) << one.status().message();
  expectDecode(*one, 0, 1);
}

TEST_P(CudaDeviceTest, AnEarlierGpuIsRefusedWithTheCommand) {
  std::string path = write();
  start(75);
  EXPECT_THAT(failureOf(path, StatusCode::WrongMachine),
              AllOf(HasSubstr("is compiled for sm_89, and Software GPU is "
                              "sm_75; compile for it"),
                    HasSubstr("moec compile"), HasSubstr("--gpu-arch 75")));
}

TEST_P(CudaDeviceTest, AnOldDriverIsRefused) {
  std::string path = write();
  start(90, 12040);
  EXPECT_THAT(failureOf(path, StatusCode::WrongMachine),
              AllOf(HasSubstr("(for CUDA 12.4) does not take kernel"),
                    HasSubstr("update the driver")));
}

TEST_P(CudaDeviceTest, NoDriver) {
  std::string path = write();
  EngineOptions options;
  options.makeDevices = [](const Plan &plan, const WeightFiles &files,
                           DeviceOptions devices) {
    devices.cudaLibrary = "/nowhere/libcuda.so.1";
    return makeDevices(plan, files, std::move(devices));
  };
  auto one = OneSequence::open(path, options);
  EXPECT_EQ(one.status().code(), StatusCode::WrongMachine);
  EXPECT_THAT(one.status().message(),
              AllOf(HasSubstr("gpu0 is a GPU: this machine has no CUDA driver"),
                    HasSubstr("--target native")));
}

TEST_P(CudaDeviceTest, TooLittleMemoryIsSaidBeforeAnythingIsAllocated) {
  std::string path = write();
  softcuda::Options options;
  options.gpus[0].gpu.arch = kArch;
  options.gpus[0].memoryBytes = 640 << 20;
  softcuda::reset(std::move(options));
  EXPECT_THAT(failureOf(path, StatusCode::DoesNotFit),
              AllOf(HasSubstr("gpu0 (Software GPU) needs"),
                    HasSubstr("of 640.00 MiB are free"),
                    HasSubstr("--ctx 12")));
  EXPECT_EQ(softcuda::totals().allocations, 0u);
}

TEST_P(CudaDeviceTest, AFailedLaunchNamesOpLayerAndStep) {
  plan().explanation[0]->part = "ffn";
  plan().explanation[0]->layer = 0;
  auto one = open();
  expectDecode(one, 0, 1);
  softcuda::options().failures["cuGraphLaunch"] = 719;
  auto logits = one.append(tokens[1]);
  ASSERT_FALSE(logits.isOk());
  EXPECT_THAT(logits.status().message(),
              AllOf(HasSubstr("phase decode, instruction 0 (embed) of "
                              "blk.0.ffn on gpu0 (Software GPU), in a step of "
                              "1 token from position 1"),
                    HasSubstr("launching a graph")));
  softcuda::options().failures.clear();
}

} // namespace
