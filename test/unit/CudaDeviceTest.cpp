// The sample plan on a software GPU against float64, and its failures.

#include "runtime/device/cuda/CudaWeights.h"
#include "runtime/engine/MemoryFit.h"
#include "runtime/plan/WeightFiles.h"
#include "test/unit/CudaDeviceFixture.h"

#include <cstring>

using namespace moert;
using namespace moetest;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

class CudaDeviceTest : public CudaDeviceFixture,
                       public ::testing::WithParamInterface<Timing> {
protected:
  Timing timing() const override { return GetParam(); }
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

// The first run uses single launches, so that the capture loads nothing.
TEST_P(CudaDeviceTest, APhaseIsCapturedOnceAndNothingIsAllocatedInSteps) {
  SOFTWARE_ONLY();
  auto one = open();
  uint64_t allocations = softcuda::totals().allocations;
  expectDecode(one, 0, 1);
  EXPECT_EQ(softcuda::totals().captures, 0u);
  expectDecode(one, 1, 3);
  softcuda::Totals totals = softcuda::totals();
  EXPECT_EQ(totals.captures, 2u); // One for decode, and one for logits.
  EXPECT_EQ(totals.graphLaunches, 6u);
  EXPECT_EQ(totals.allocations, allocations);
}

TEST_P(CudaDeviceTest, ASavedFileContainsTheCache) {
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

TEST_P(CudaDeviceTest, LoadingReportsProgressOfAllWeights) {
  SOFTWARE_ONLY();
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
  uint64_t resident = 0;
  for (const fb::Residency &residency : plan().residency) {
    const fb::WeightT &w = *plan().weights[residency.weight()];
    if (residency.device() == 1)
      resident += 4 * uint64_t(w.outer * w.rows * w.cols);
  }
  EXPECT_EQ(all, resident); // Weights of the CPU are not included.
  EXPECT_GE(softcuda::totals().bytesToDevice, all);
}

// A buffer is refilled only after its content has been copied to the GPU.
TEST_P(CudaDeviceTest, WeightsAreUploadedThroughARingOfBuffers) {
  // One of the weights is a part of another one.
  auto part = std::make_unique<fb::WeightT>(*this->plan().weights[0]);
  ASSERT_GT(part->rows, 1);
  part->name += ".part";
  part->offset += 4 * uint64_t(part->cols);
  part->rows -= 1;
  this->plan().residency.emplace_back(uint32_t(this->plan().weights.size()), 0,
                                      fb::ResidencyMode::Resident);
  this->plan().weights.push_back(std::move(part));
  auto plan = Plan::load(write());
  ASSERT_TRUE(plan.isOk()) << plan.status().message();
  auto files = WeightFiles::open(*plan, {});
  ASSERT_TRUE(files.isOk()) << files.status().message();
  auto driver = CudaDriver::load(MOE_SOFTCUDA);
  ASSERT_TRUE(driver.isOk()) << driver.status().message();
  auto gpu = driver->describe(0);
  ASSERT_TRUE(gpu.isOk());
  auto context = CudaContext::enter(*driver, gpu->handle);
  ASSERT_TRUE(context.isOk()) << context.status().message();
  CudaWeights weights(plan->table(), 0);
  auto stream = (*context)->createStream();
  auto memory = (*context)->allocate(weights.bytes());
  auto back = (*context)->allocatePinned(weights.bytes());
  ASSERT_TRUE(stream.isOk() && memory.isOk() && back.isOk());
  Status sent = weights.upload(*driver, **context, stream->get(), *files,
                               memory->get(), "gpu0", {}, /*ringBytes=*/1000);
  ASSERT_TRUE(sent.isOk()) << sent.message();
  ASSERT_EQ(driver->api().cuMemcpyDtoHAsync_v2(back->get(), memory->get(),
                                               weights.bytes(), stream->get()),
            cu::kSuccess);
  ASSERT_EQ(driver->api().cuStreamSynchronize(stream->get()), cu::kSuccess);
  for (uint32_t i = 0; i < plan->table().weights()->size(); ++i) {
    const fb::Weight &w = *plan->table().weights()->Get(i);
    ASSERT_TRUE(weights.has(i));
    size_t bytes = size_t(4 * w.outer() * w.rows() * w.cols());
    EXPECT_EQ(
        std::memcmp(static_cast<std::byte *>(back->get()) + weights.offset(i),
                    files->bytes(w.file()).data() + w.offset(), bytes),
        0)
        << w.name()->str();
  }
}

// Weights in a GPU's memory need not be in the host's.
TEST_P(CudaDeviceTest, TheHostNeedsOnlyWeightsThatCpusRead) {
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
  fit.limit = {fit.need.resident(), true}; // No weights fit in addition.
  EXPECT_GT(pagedBytesPerToken(*plan, fit), 0);
  EXPECT_LE(pagedBytesPerToken(*plan, fit), double(experts));
}

//===----------------------------------------------------------------------===//
// Images, and what goes wrong
//===----------------------------------------------------------------------===//

TEST_P(CudaDeviceTest, CubinOfTheSameGeneration) {
  std::string path = write(80);
  start(86, 12000); // This driver is too old for the kernels' PTX.
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
  SOFTWARE_ONLY();
  std::string path = write();
  start(75);
  EXPECT_THAT(failureOf(path, StatusCode::WrongMachine),
              AllOf(HasSubstr("is compiled for sm_89, and Software GPU is "
                              "sm_75; compile kernels for it too"),
                    HasSubstr("moec compile"), HasSubstr("--gpu-arch 75")));
}

TEST_P(CudaDeviceTest, AnOldDriverIsRefused) {
  SOFTWARE_ONLY();
  std::string path = write();
  start(90, 12040);
  EXPECT_THAT(failureOf(path, StatusCode::WrongMachine),
              AllOf(HasSubstr("(for CUDA 12.4) does not accept kernel"),
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
  EXPECT_THAT(moetool::fullMessage(one.status()),
              AllOf(HasSubstr("gpu0 is a GPU: this machine has no CUDA driver"),
                    HasSubstr("recompile for this machine\n  run")));
}

TEST_P(CudaDeviceTest, TooLittleMemoryIsReportedBeforeAnythingIsAllocated) {
  SOFTWARE_ONLY();
  std::string path = write();
  softcuda::Options options;
  options.gpus[0].gpu.arch = planArch();
  options.gpus[0].memoryBytes = 640 << 20;
  softcuda::reset(std::move(options));
  EXPECT_THAT(failureOf(path, StatusCode::DoesNotFit),
              AllOf(HasSubstr("gpu0 (Software GPU) needs"),
                    HasSubstr("of 640.00 MiB are free"),
                    HasSubstr("; end what else uses it, or compile for a "
                              "shorter context\n  run"),
                    HasSubstr("--ctx 12")));
  EXPECT_EQ(softcuda::totals().allocations, 0u);
}

// Kernels trust the arguments of their launch.
TEST_P(CudaDeviceTest, APlanWithChangedLaunchesIsRefused) {
  SOFTWARE_ONLY();
  write(); // Writes the launches to the plan.
  fb::Launch &launch = plan().phases[0]->instructions[0]->launches[0];
  const fb::Launch kept = launch;
  auto refusedWith = [&](int wider, int threads, int shared) {
    launch = fb::Launch(kept.module_(), kept.grid_x() + wider, kept.grid_y(),
                        kept.grid_z(), kept.threads() + threads,
                        kept.shared_bytes() + shared);
    EXPECT_THAT(
        failureOf(sample_.builder.write(folder_), StatusCode::InvalidFile),
        AllOf(HasSubstr("instruction 0 (embed)"),
              HasSubstr("needs other launches than the plan has"),
              HasSubstr("compile the model again")));
  };
  refusedWith(1, 0, 0);
  refusedWith(0, 32, 0);
  refusedWith(0, 0, 4);
}

TEST_P(CudaDeviceTest, AFailedLaunchNamesOpLayerAndStep) {
  SOFTWARE_ONLY();
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
