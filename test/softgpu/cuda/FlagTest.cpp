//===- FlagTest.cpp - Flags in memory that GPUs and hosts share -----------===//

#include "test/softgpu/cuda/CudaTest.h"

namespace softcuda {
namespace {

class FlagTest : public CudaTest {};

INSTANTIATE_TEST_SUITE_P(Timings, FlagTest,
                         ::testing::Values(Timing::Early, Timing::Late,
                                           Timing::Seeded),
                         nameOf);

TEST_P(FlagTest, KernelsAndTheHostTalkThroughMappedMemory) {
  auto *flags = reinterpret_cast<std::atomic<uint32_t> *>(pinned(0, 2));
  CUdeviceptr at = 0, y = device(0), x = device(1);
  EXPECT_EQ(cuMemHostGetDevicePointer_v2(&at, flags, 0), kOk);
  CUstream s = stream();
  uint32_t value = 7;
  void *parameters[] = {&at, &value};
  EXPECT_EQ(cuLaunchKernel(function("spin"), 1, 1, 1, 1, 1, 1, 0, s, parameters,
                           nullptr),
            kOk);
  EXPECT_EQ(launchAdd(y, x, 0, s), kOk);
  // The GPU executes the launches although the host makes no further call.
  while (flags[1].load(std::memory_order_acquire) != 7)
    std::this_thread::yield();
  flags[0].store(7, std::memory_order_release);
  EXPECT_EQ(cuStreamSynchronize(s), kOk);
  EXPECT_EQ(download(y), all(1));
  EXPECT_THAT(findings(), IsEmpty());
}

TEST_P(FlagTest, StreamsWaitForValues) {
  auto *flags = reinterpret_cast<std::atomic<uint32_t> *>(pinned(0, 2));
  CUdeviceptr at = 0, y = device(0), x = device(1);
  EXPECT_EQ(cuMemHostGetDevicePointer_v2(&at, flags, 0), kOk);
  CUstream s = stream();
  EXPECT_EQ(cuStreamWaitValue32_v2(s, at, 3, 0), kOk);
  EXPECT_EQ(launchAdd(y, x, 0, s), kOk);
  EXPECT_EQ(cuStreamWriteValue32_v2(s, at + 4, 9, 0), kOk);
  std::thread worker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    flags[0] = 3;
  });
  EXPECT_EQ(cuStreamSynchronize(s), kOk);
  EXPECT_EQ(flags[1], 9u);
  worker.join();
  EXPECT_EQ(download(y), all(1));
  EXPECT_EQ(cuStreamWaitValue32_v2(s, uintptr_t(flags), 3, 0), kInvalidValue);
}

TEST_P(FlagTest, FlagsOrderWhatStreamsDo) {
  struct {
    bool isSame;    ///< Whether the stream waits for the flag that is written.
    unsigned flags; ///< 1: earlier writes may become visible after the flag.
    bool isRelayed; ///< Whether the host waits for one flag and writes another.
    bool isOrdered;
  } kCases[] = {{true, 0, false, true},
                {true, 1, false, false},
                {false, 0, false, false},
                {false, 0, true, true},
                {false, 1, true, false}};
  for (auto &c : kCases) {
    SCOPED_TRACE(testing::Message() << c.isSame << c.flags << c.isRelayed);
    start();
    auto *flags = reinterpret_cast<std::atomic<uint32_t> *>(pinned(0, 3));
    CUdeviceptr at = 0, y = device(0), x = device(1);
    EXPECT_EQ(cuMemHostGetDevicePointer_v2(&at, flags, 0), kOk);
    CUstream s = stream(), t = stream(), u = stream();
    // Writes by a third stream must not matter.
    EXPECT_EQ(cuStreamWriteValue32_v2(u, at + 8, 1, 0), kOk);
    EXPECT_EQ(cuStreamWaitValue32_v2(t, at + (c.isSame ? 0 : 4), 1, 0), kOk);
    EXPECT_EQ(launchAdd(y, x, 0, t), kOk);
    if (!c.isSame && !c.isRelayed) {
      EXPECT_EQ(cuStreamWriteValue32_v2(u, at + 4, 1, 0), kOk);
    }
    EXPECT_EQ(launchAdd(y, x, 0, s), kOk);
    EXPECT_EQ(cuStreamWriteValue32_v2(s, at, 1, c.flags), kOk);
    if (c.isRelayed) {
      while (flags[0].load(std::memory_order_acquire) != 1)
        std::this_thread::yield();
      flags[1].store(1, std::memory_order_release);
    }
    for (CUstream each : {s, t, u})
      EXPECT_EQ(cuStreamSynchronize(each), kOk);
    if (c.isOrdered)
      EXPECT_THAT(findings(), IsEmpty());
    else
      EXPECT_THAT(findings(), ElementsAre(HasSubstr("nothing orders the two")));
  }
}

// After memory is freed, a GPU's earlier write of the same value must not count
// as the host's write now.
TEST_P(FlagTest, FlagsGoWithTheirMemory) {
  CUdeviceptr y = device(0), x = device(1), at = 0, other = 0;
  alignas(4096) static std::atomic<uint32_t> flag;
  auto *seen = reinterpret_cast<std::atomic<uint32_t> *>(pinned(0, 1));
  EXPECT_EQ(cuMemHostGetDevicePointer_v2(&other, seen, 0), kOk);
  CUstream s = stream(), t = stream();
  EXPECT_EQ(cuMemHostRegister_v2(&flag, 4096, 0), kOk);
  EXPECT_EQ(cuMemHostGetDevicePointer_v2(&at, &flag, 0), kOk);
  EXPECT_EQ(cuStreamWriteValue32_v2(t, at, 1, 0), kOk);
  EXPECT_EQ(cuMemHostUnregister(&flag), kOk);
  flag = 0;
  EXPECT_EQ(cuMemHostRegister_v2(&flag, 4096, 0), kOk);
  EXPECT_EQ(cuMemHostGetDevicePointer_v2(&at, &flag, 0), kOk);
  EXPECT_EQ(cuStreamWaitValue32_v2(s, at, 1, 0), kOk);
  EXPECT_EQ(launchAdd(y, x, 0, s), kOk);
  EXPECT_EQ(launchAdd(y, x, 0, t), kOk);
  EXPECT_EQ(cuStreamWriteValue32_v2(t, other, 1, 0), kOk);
  while (seen->load(std::memory_order_acquire) != 1)
    std::this_thread::yield();
  flag.store(1, std::memory_order_release);
  EXPECT_EQ(cuStreamSynchronize(s), kOk);
  EXPECT_EQ(cuMemHostUnregister(&flag), kOk);
  EXPECT_THAT(findings(), IsEmpty());
}

TEST_P(FlagTest, FlagsCompareAsAsked) {
  uint32_t *flag = pinned(0, 1);
  CUdeviceptr at = 0;
  EXPECT_EQ(cuMemHostGetDevicePointer_v2(&at, flag, 0), kOk);
  struct {
    unsigned how;
    uint32_t now, value;
    bool isThere;
  } kCases[] = {{0, 4, 3, true},          {0, 2, 3, false},
                {0, 0x80000000, 1, true}, // The difference may wrap.
                {0, 1, 0xFFFFFFF0, true}, {1, 4, 3, false},
                {1, 3, 3, true},          {2, 4, 6, true},
                {2, 4, 3, false},         {3, ~0u, 0, false},
                {3, 5, 1, true}};
  for (auto &c : kCases) {
    CUstream s = stream();
    *flag = c.now;
    EXPECT_EQ(cuStreamWaitValue32_v2(s, at, c.value, c.how), kOk);
    auto end = std::chrono::steady_clock::now() +
               std::chrono::milliseconds(c.isThere ? 20'000 : 20);
    while (cuStreamQuery(s) == kNotReady &&
           std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(cuStreamQuery(s), c.isThere ? kOk : kNotReady)
        << c.how << " " << c.now << " " << c.value;
    *flag = c.how == 3 ? 0 : c.value; // Lets the stream that waits go on.
    EXPECT_EQ(cuStreamSynchronize(s), kOk);
  }
}

} // namespace
} // namespace softcuda
