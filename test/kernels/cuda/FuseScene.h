//===- FuseScene.h - Instructions apart and in one launch -------*- C++ -*-===//
//
// What tests of fused launches share: the instructions of a queue, which run
// one by one or as one launch, with the same results.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_KERNELS_CUDA_FUSESCENE_H
#define MOE_TEST_KERNELS_CUDA_FUSESCENE_H

#include "kernels/Abi.h"
#include "kernels/Activation.h"
#include "kernels/KvCache.h"
#include "kernels/OpKernels.h"
#include "kernels/cuda/Fuse.h"
#include "test/kernels/cuda/SoftwareGpu.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <random>

namespace moek::test {

template <class T> T *at(uint64_t address) {
  return reinterpret_cast<T *>(address);
}

/// The instructions of a queue, with new memory for each scene: on this
/// machine's GPU, which has its own order of blocks and architecture, else on
/// the software GPU.
class Scene {
public:
  /// The step's tokens are the last of a sequence, from `position` on.
  Scene(softgpu::Schedule schedule, int32_t tokens, int32_t maxTokens,
        int arch = 89, int32_t position = 5) {
    Gpu *machines = GpuTest::get().gpu.get();
    if (!machines || machines->isSoftware())
      own_ = std::make_unique<SoftwareGpu>(
          softgpu::SoftGpuOptions{.arch = arch, .schedule = schedule});
    gpu_ = own_ ? own_.get() : machines;
    context_ = cuda::contextOf(maxTokens, 1, 256, gpu_->arch(), 4);
    cuda::Step step{};
    step.tokens = tokens;
    step.sequences = 1;
    // Pages are not in the order of positions.
    std::vector<int32_t> pages = {2, 0, 1};
    for (int32_t i = 3; i <= (position + tokens) / int32_t(kKvPage); ++i)
      pages.push_back(i);
    step.sequence[0] = {0, tokens, position, 0, at<int>(ints(pages))};
    step_ = put(&step, sizeof(step), "step");
    context_.step = at<cuda::Step>(step_);
  }

  ~Scene() {
    for (uint64_t address : allocated_)
      gpu_->free(address);
  }
  Scene(const Scene &) = delete;

  int32_t maxTokens() const { return context_.maxTokens; }
  void form(Encoding activation, Layout layout) {
    context_.form = {activation, layout};
  }

  uint64_t floats(int64_t count, float size = 1) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float &x : values)
      x = size * (float(random_() % 2001) / 1000 - 1);
    return put(values.data(), count * 4, "floats");
  }
  uint64_t ints(const std::vector<int32_t> &values) {
    return put(values.data(), int64_t(values.size() * 4), "ints");
  }
  /// Returns the address of random bytes of a quantised weight, such that no
  /// scale is infinite.
  uint64_t codes(int64_t bytes) {
    std::vector<uint8_t> values(static_cast<size_t>(bytes));
    for (uint8_t &x : values)
      x = uint8_t(random_()) & 0x37;
    return put(values.data(), bytes, "codes");
  }
  /// Returns memory that was not written, and is compared at the end.
  uint64_t out(int64_t bytes) {
    uint64_t address = allocate(bytes, "out");
    outs_.emplace_back(address, bytes);
    sizes_[address] = bytes;
    return address;
  }
  /// Returns memory that was not written, and holds results of blocks that are
  /// not compared: those of a split that nobody sees stay as they are.
  uint64_t unread(int64_t bytes) {
    uint64_t address = allocate(bytes, "unread");
    sizes_[address] = bytes;
    return address;
  }
  /// Returns an output with initial contents.
  uint64_t inOut(int64_t count) {
    uint64_t address = floats(count);
    outs_.emplace_back(address, count * 4);
    return address;
  }
  WeightView matrix(uint64_t data, int64_t outer, int64_t rows, int64_t cols,
                    Format format = Format::F32) {
    auto row = int64_t(rowBytes(format, uint64_t(cols)));
    return {at<uint8_t>(data), outer, rows, cols, rows * row, row, format};
  }
  WeightView f32(int64_t outer, int64_t rows, int64_t cols) {
    return matrix(floats(outer * rows * cols), outer, rows, cols);
  }
  WeightView q8(int64_t outer, int64_t rows, int64_t cols) {
    return matrix(codes(outer * rows * cols / 32 * 34), outer, rows, cols,
                  Format::Q8_0);
  }

  template <OpCode Op>
  void add(const ArgsOf<Op> &args, std::vector<uint64_t> reads,
           std::vector<uint64_t> writes) {
    std::vector<cuda::Launch> launches = launchesOf(Op, &args, context_);
    ASSERT_EQ(launches.size(), 1u);
    std::vector<cuda::Use> uses;
    for (uint64_t x : reads)
      uses.push_back({0, x, x + uint64_t(sizes_.at(x)), false});
    for (uint64_t x : writes)
      uses.push_back({0, x, x + uint64_t(sizes_.at(x)), true});
    parts_.push_back({launches[0], uses});
  }

  /// Records that the operand at `address` has this number of bytes.
  void size(uint64_t address, int64_t bytes) { sizes_[address] = bytes; }

  std::optional<cuda::Launch> fused() const { return fuse(parts_, context_); }

  bool isSoftware() const { return own_ != nullptr; }

  /// Runs a launch that fails, and returns why.
  std::string failureOf(const cuda::Launch &launch) {
    auto image =
        GpuTest::get().compiler->compile({launch.kernel, context_.arch});
    return image ? gpu_->launch(launch, *image)
                 : std::string(image.status().message());
  }

  /// Runs the launches and returns the contents of all outputs.
  std::vector<uint8_t> run(const std::vector<cuda::Launch> &launches) {
    for (const cuda::Launch &launch : launches) {
      auto image =
          GpuTest::get().compiler->compile({launch.kernel, context_.arch});
      EXPECT_TRUE(image.isOk()) << image.status().message();
      if (!image)
        return {};
      EXPECT_EQ(image->spilledBytes, 0) << launch.kernel.entry;
      EXPECT_EQ(gpu_->launch(launch, *image), "") << launch.kernel.entry;
    }
    std::vector<uint8_t> all;
    for (auto [address, bytes] : outs_) {
      all.resize(all.size() + size_t(bytes));
      gpu_->copyOut(all.data() + all.size() - bytes, address, size_t(bytes));
    }
    cuda::Step step;
    gpu_->copyOut(&step, step_, sizeof(step));
    for (uint32_t ticket : step.tickets)
      EXPECT_EQ(ticket, 0u) << "the next launch finds another";
    return all;
  }
  std::vector<uint8_t> runOneByOne() {
    std::vector<cuda::Launch> launches;
    for (const cuda::Fusible &part : parts_)
      launches.push_back(part.launch);
    return run(launches);
  }

private:
  uint64_t allocate(int64_t bytes, const char *name) {
    allocated_.push_back(gpu_->allocate(size_t(bytes), name));
    return allocated_.back();
  }
  uint64_t put(const void *data, int64_t bytes, const char *name) {
    uint64_t address = allocate(bytes, name);
    gpu_->copyIn(address, data, size_t(bytes));
    sizes_[address] = bytes;
    return address;
  }

  std::unique_ptr<SoftwareGpu> own_; ///< Null if the machine's GPU is used.
  Gpu *gpu_;
  std::vector<uint64_t> allocated_;
  cuda::LaunchContext context_;
  uint64_t step_ = 0;
  std::mt19937 random_{7};
  std::vector<cuda::Fusible> parts_;
  std::vector<std::pair<uint64_t, int64_t>> outs_;
  std::map<uint64_t, int64_t> sizes_;
};

using Script = std::function<void(Scene &)>;

/// Expects that `script` becomes one launch with this name, and that it leaves
/// the same results as separate launches.
inline void expectOneLaunch(const Script &script, const char *name,
                            int32_t tokens = 1, int32_t maxTokens = 1,
                            int arch = 89, int32_t position = 5) {
  if (!GpuTest::get().compiler)
    GTEST_SKIP() << GpuTest::get().why;
  Scene apart(softgpu::Schedule::Forward, tokens, maxTokens, arch, position);
  script(apart);
  std::vector<uint8_t> expected = apart.runOneByOne();
  for (softgpu::Schedule schedule :
       {softgpu::Schedule::Forward, softgpu::Schedule::Reversed,
        softgpu::Schedule::Shuffled}) {
    Scene together(schedule, tokens, maxTokens, arch, position);
    script(together);
    std::optional<cuda::Launch> launch = together.fused();
    ASSERT_TRUE(launch);
    EXPECT_EQ(launch->kernel.entry, std::string("fused__") + name);
    // This runs only once, since instructions in place would update their data
    // again. The tickets must be back at zero afterwards.
    std::vector<uint8_t> found = together.run({*launch});
    ASSERT_EQ(found.size(), expected.size());
    size_t wrong = 0;
    for (size_t i = 0; i < found.size(); ++i)
      wrong += found[i] != expected[i];
    EXPECT_EQ(wrong, 0u) << "bytes of " << found.size();
  }
}

} // namespace moek::test

#endif // MOE_TEST_KERNELS_CUDA_FUSESCENE_H
