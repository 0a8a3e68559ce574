// Launches prefetch weights to L2 for later launches.

#include "runtime/device/cuda/CudaPrefetch.h"

#include "kernels/cuda/Fuse.h"

#include <gtest/gtest.h>

using namespace moert;

namespace {

constexpr uint64_t kMiB = uint64_t(1) << 20;

/// A part whose launches are one segment, for a GPU with an L2 of 64 MiB. In
/// the time of a single block, its memory delivers 4 MiB.
class CudaPrefetchTest : public ::testing::Test {
protected:
  CudaPrefetchTest() {
    gpu.l2Bytes = 64 * kMiB;
    gpu.memoryBusBits = 256;
    gpu.memoryClockHz = double(4 * kMiB) / 4e-6 / (2 * 256 / 8);
    part.segments.emplace_back();
  }

  /// Adds a launch that reads `bytes` of weights, at the address after those of
  /// the launch before.
  CudaLaunch &add(uint64_t bytes, bool canPrefetch = false) {
    CudaLaunch &launch = part.launches.emplace_back();
    launch.canPrefetch = canPrefetch;
    if (bytes > 0)
      launch.weights.push_back({at(next), bytes});
    next += bytes;
    ++part.segments.back().count;
    return launch;
  }
  static const uint8_t *at(uint64_t address) {
    return reinterpret_cast<const uint8_t *>(uintptr_t(address));
  }

  static std::string inMiB(uint64_t bytes) {
    return std::to_string((bytes + kMiB / 2) / kMiB);
  }
  /// The ranges that launch number `i` brings, as "begin+bytes" in MiB.
  std::string broughtBy(size_t i) const {
    std::string all;
    for (const moek::cuda::Prefetch &range :
         moek::cuda::prefetchesOf(part.launches[i].args)) {
      uint64_t begin = uint64_t(uintptr_t(range.begin)) - kBase;
      all += (all.empty() ? "" : " ") + inMiB(begin) + "+" + inMiB(range.bytes);
    }
    return all;
  }

  static constexpr uint64_t kBase = uint64_t(1) << 32;
  CudaGpu gpu;
  CudaPart part;
  uint64_t next = kBase;
};

TEST_F(CudaPrefetchTest, WhatMemoryDeliversBesideASingleBlock) {
  add(8 * kMiB, true);
  add(3 * kMiB);
  add(9 * kMiB, true);
  add(2 * kMiB);
  prefetchWeights(part, gpu);
  // The next launch's weights, and the first MiB of those after them.
  EXPECT_EQ(broughtBy(0), "8+3 11+1");
  EXPECT_EQ(broughtBy(2), "20+2");
}

TEST_F(CudaPrefetchTest, EachByteOnce) {
  add(0, true);
  add(0, true);
  add(10 * kMiB);
  prefetchWeights(part, gpu);
  EXPECT_EQ(broughtBy(0), "0+4");
  EXPECT_EQ(broughtBy(1), "4+4");
}

TEST_F(CudaPrefetchTest, LaunchesWithoutASingleBlockBringNothing) {
  add(0);
  add(10 * kMiB);
  moek::cuda::Prefetch untouched{at(7), 7};
  moek::cuda::setPrefetch(part.launches[0].args, {&untouched, 1});
  prefetchWeights(part, gpu);
  EXPECT_EQ(moek::cuda::prefetchesOf(part.launches[0].args)[0].bytes, 7u);
}

TEST_F(CudaPrefetchTest, OfExpertsInBetweenL2KeepsHalfOfItself) {
  add(0, true);
  add(0).otherBytes = 32 * kMiB;
  add(4 * kMiB);
  prefetchWeights(part, gpu);
  EXPECT_EQ(broughtBy(0), "0+4");
  part.launches[1].otherBytes += 1;
  part.launches[0].args = {};
  prefetchWeights(part, gpu);
  EXPECT_EQ(broughtBy(0), "");
}

TEST_F(CudaPrefetchTest, WhileTheGpuWaitsAsMuchAsL2Keeps) {
  add(0, true);
  add(0, true); // The last launch that prefetches before the wait:
  add(kMiB);    // this one has no block that runs on alone.
  CudaSegment &waiting = part.segments.emplace_back();
  waiting.waits = {1};
  waiting.first = 3;
  add(0);
  add(20 * kMiB, true);
  add(40 * kMiB);
  EXPECT_EQ(lastBeforeWaits(part),
            (std::vector<bool>{false, true, false, false, false, false}));
  prefetchWeights(part, gpu);
  EXPECT_EQ(broughtBy(0), "0+1 1+3");
  // The limit is half of L2 less the weights that still wait there: 32 - 4.
  EXPECT_EQ(broughtBy(1), "4+17 21+11");
  // At that launch, the 17 MiB have been read.
  EXPECT_EQ(broughtBy(4), "32+4");
}

TEST_F(CudaPrefetchTest, AGpuThatDoesNotSayItsL2BringsNothing) {
  add(0, true);
  add(10 * kMiB);
  gpu.l2Bytes = 0;
  prefetchWeights(part, gpu);
  EXPECT_EQ(broughtBy(0), "");
}

TEST_F(CudaPrefetchTest, SmallWeightsAreLeftOut) {
  add(0, true);
  CudaLaunch &norm = add(4096);
  norm.weights.push_back({at(kBase + kMiB), kMiB});
  prefetchWeights(part, gpu);
  EXPECT_EQ(broughtBy(0), "1+1");
}

} // namespace
