// The ring of pinned memory through which weights are streamed to a GPU.

#include "runtime/device/cuda/CudaRing.h"

#include "test/unit/CudaDeviceFixture.h"

#include <cstring>
#include <numeric>

using namespace moert;
using namespace moetest;
using moek::cuda::HostCopy;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

constexpr uint64_t kRingMiB = uint64_t(1) << 20, kRingGiB = uint64_t(1) << 30;

//===----------------------------------------------------------------------===//
// Its size
//===----------------------------------------------------------------------===//

TEST(RingShapeTest, HasSlotsOfWholeLines) {
  for (uint64_t most : {uint64_t(128), uint64_t(1000), kRingMiB + 1,
                        65 * kRingMiB, kMostRingBytes, 3 * kRingGiB})
    for (uint64_t streamed : {uint64_t(1), uint64_t(100), 3 * kRingMiB,
                              kRingGiB, uint64_t(350) << 30, UINT64_MAX / 4}) {
      SCOPED_TRACE(testing::Message() << most << ", " << streamed);
      RingShape shape = ringShape(streamed, most);
      EXPECT_GE(shape.slots, 2u);
      EXPECT_GT(shape.slotBytes, 0u);
      EXPECT_EQ(shape.slotBytes % 64, 0u);
      EXPECT_LE(shape.slotBytes, kRingSlotBytes);
      EXPECT_LE(shape.bytes(), most);
      EXPECT_LT(shape.bytes(), streamed + 128); // No more than is used.
    }
  EXPECT_EQ(ringShape(kRingGiB, 127).bytes(), 0u);
  EXPECT_EQ(ringShape(0, kRingGiB).bytes(), 0u);
}

/// A plan whose `gpus` GPUs stream 60 layers of an expert weight of 6 GiB each.
flatbuffers::DetachedBuffer largePlan(uint32_t gpus) {
  fb::PlanT plan;
  for (uint32_t i = 0; i <= gpus; ++i) {
    plan.devices.push_back(std::make_unique<fb::DeviceT>());
    plan.devices[i]->kind = i ? fb::DeviceKind::Cuda : fb::DeviceKind::Cpu;
    plan.queues.push_back(std::make_unique<fb::QueueT>());
    plan.queues[i]->device = i;
  }
  plan.phases.push_back(std::make_unique<fb::PhaseT>());
  for (uint32_t layer = 0; layer < 60; ++layer) {
    auto weight = std::make_unique<fb::WeightT>();
    weight->outer = 256;
    weight->outer_stride = int64_t(24 * kRingMiB);
    const uint32_t gpu = 1 + layer % gpus;
    plan.residency.emplace_back(layer, gpu, fb::ResidencyMode::Streamed);
    plan.weights.push_back(std::move(weight));
    auto instruction = std::make_unique<fb::InstructionT>();
    instruction->queue = gpu;
    instruction->operands.emplace_back(fb::OperandKind::Weight, layer);
    plan.phases[0]->instructions.push_back(std::move(instruction));
  }
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::Plan::Pack(builder, &plan));
  return builder.Release();
}

TEST(RingShapeTest, AllRingsOfAPlanTakeAtMostTwoGiB) {
  for (uint32_t gpus : {1, 2, 3, 8, 60}) {
    auto buffer = largePlan(gpus);
    const auto &plan = *flatbuffers::GetRoot<fb::Plan>(buffer.data());
    EXPECT_THAT(ringsOf(plan, 0), IsEmpty());
    uint64_t all = 0;
    for (uint32_t gpu = 1; gpu <= gpus; ++gpu) {
      auto rings = ringsOf(plan, gpu);
      ASSERT_EQ(rings.size(), 1u);
      EXPECT_EQ(rings.begin()->first, gpu);
      EXPECT_GE(rings.begin()->second.slots, 2u);
      all += rings.begin()->second.bytes();
    }
    EXPECT_LE(all, kMostRingBytes);
    EXPECT_GT(all, kMostRingBytes / 2);
  }
  static_assert(kMostRingBytes <= 2 * kRingGiB);
}

//===----------------------------------------------------------------------===//
// Its work
//===----------------------------------------------------------------------===//

class CudaRingTest : public ::testing::TestWithParam<Timing> {
protected:
  void SetUp() override {
    softcuda::Options options;
    options.timing = GetParam();
    softcuda::reset(std::move(options));
    auto driver = CudaDriver::load(MOE_SOFTCUDA);
    ASSERT_TRUE(driver.isOk()) << driver.status().message();
    driver_.emplace(*std::move(driver));
    auto gpu = driver_->describe(0);
    ASSERT_TRUE(gpu.isOk());
    auto context = CudaContext::enter(*driver_, gpu->handle);
    ASSERT_TRUE(context.isOk()) << context.status().message();
    context_ = *std::move(context);
  }
  void TearDown() override {
    context_.reset();
    EXPECT_THAT(softcuda::findings(), IsEmpty());
    EXPECT_THAT(softcuda::live(), IsEmpty());
  }
  /// Returns bytes that are different in every place.
  static std::vector<uint8_t> content(size_t bytes, uint8_t first) {
    std::vector<uint8_t> all(bytes);
    for (size_t i = 0; i < bytes; ++i)
      all[i] = uint8_t(first + i * 7 + i / 251);
    return all;
  }

  std::optional<CudaDriver> driver_;
  std::unique_ptr<CudaContext> context_;
};

INSTANTIATE_TEST_SUITE_P(Timings, CudaRingTest,
                         ::testing::Values(Timing::Early, Timing::Late,
                                           Timing::Seeded),
                         [](const auto &info) {
                           return info.param == Timing::Early  ? "Early"
                                  : info.param == Timing::Late ? "Late"
                                                               : "Seeded";
                         });

// The software GPU finds it if a slot changes before its copy has ended, and if
// a copy overwrites what the stream, which stands for launches, still reads.
TEST_P(CudaRingTest, NoSlotIsFilledBeforeItsCopyHasEnded) {
  constexpr size_t kPart = 3000, kParts = 9;
  const std::vector<uint8_t> weights = content(kPart * kParts, 1);
  auto stream = context_->createStream();
  auto to = context_->allocate(2 * kPart);
  auto back = context_->allocatePinned(kPart * kParts);
  ASSERT_TRUE(stream.isOk() && to.isOk() && back.isOk());
  for (RingShape shape : {RingShape{2, 64}, RingShape{2, 1024},
                          RingShape{5, 640}, RingShape{40, 4096}})
    for (int threads : {1, 3}) {
      auto ring = CudaRing::create(*driver_, *context_, shape, threads);
      ASSERT_TRUE(ring.isOk()) << ring.status().message();
      std::vector<HostCopy> copies; // Two for each part, to one of two places.
      for (size_t i = 0; i < kParts; ++i) {
        auto *place =
            reinterpret_cast<uint8_t *>(uintptr_t(to->get() + i % 2 * kPart));
        const uint8_t *from = weights.data() + i * kPart;
        copies.push_back({from, place, 1001});
        copies.push_back({from + 1001, place + 1001, kPart - 1001});
      }
      for (int step = 0; step < 2; ++step) {
        auto *found = static_cast<uint8_t *>(back->get());
        ASSERT_TRUE((*ring)->begin(copies).isOk());
        for (size_t i = 0; i < kParts; ++i) {
          Status brought = (*ring)->bring(2, i == 0, stream->get());
          ASSERT_TRUE(brought.isOk()) << brought.message();
          ASSERT_EQ(driver_->api().cuMemcpyDtoHAsync_v2(
                        found + i * kPart, to->get() + i % 2 * kPart, kPart,
                        stream->get()),
                    cu::kSuccess);
        }
        ASSERT_TRUE((*ring)->end().isOk());
        ASSERT_EQ(driver_->api().cuStreamSynchronize(stream->get()),
                  cu::kSuccess);
        EXPECT_EQ(std::memcmp(found, weights.data(), weights.size()), 0)
            << shape.slots << " slots of " << shape.slotBytes;
        std::memset(found, 0, weights.size());
      }
    }
}

// A step that ends early leaves copies that nobody asked for.
TEST_P(CudaRingTest, EndsAmidItsCopies) {
  const std::vector<uint8_t> weights = content(10000, 5);
  auto stream = context_->createStream();
  auto to = context_->allocate(10000);
  ASSERT_TRUE(stream.isOk() && to.isOk());
  auto *place = reinterpret_cast<uint8_t *>(uintptr_t(to->get()));
  auto ring = CudaRing::create(*driver_, *context_, {2, 64}, 2);
  ASSERT_TRUE(ring.isOk()) << ring.status().message();
  const std::vector<HostCopy> copies = {
      {weights.data(), place, 500}, {weights.data() + 500, place + 500, 9500}};
  for (size_t asked : {0, 1, 2, 0}) {
    ASSERT_TRUE((*ring)->begin(copies).isOk());
    for (size_t i = 0; i < asked; ++i)
      ASSERT_TRUE((*ring)->bring(1, i == 0, stream->get()).isOk());
    ASSERT_TRUE((*ring)->end().isOk());
    ASSERT_EQ(driver_->api().cuStreamSynchronize(stream->get()), cu::kSuccess);
  }
  ASSERT_TRUE((*ring)->begin(copies).isOk()); // And is destroyed.
}

TEST_P(CudaRingTest, IsSmallerWhereLessCanBePinned) {
  softcuda::options().mostPinnedBytes = 100 * kRingMiB;
  auto ring = CudaRing::create(*driver_, *context_,
                               ringShape(4 * kRingGiB, kMostRingBytes), 1);
  ASSERT_TRUE(ring.isOk()) << ring.status().message();
  EXPECT_EQ((*ring)->shape().bytes(), 64 * kRingMiB);
  EXPECT_EQ((*ring)->shape().slots, 2u);
  softcuda::options().mostPinnedBytes = 66 * kRingMiB;
  auto second = CudaRing::create(*driver_, *context_,
                                 ringShape(4 * kRingGiB, kMostRingBytes), 1);
  ASSERT_TRUE(second.isOk()) << second.status().message();
  EXPECT_EQ((*second)->shape().bytes(), 2 * kRingMiB);
  softcuda::options().mostPinnedBytes = 67 * kRingMiB;
  auto third = CudaRing::create(*driver_, *context_,
                                ringShape(4 * kRingGiB, kMostRingBytes), 1);
  ASSERT_FALSE(third.isOk());
  EXPECT_EQ(third.status().code(), StatusCode::DoesNotFit);
  EXPECT_THAT(third.status().message(),
              HasSubstr("streaming experts takes at least 2.00 MiB: free "
                        "memory, or compile with --stream-experts off"));
}

} // namespace
