//===- RunKernel.cpp - Runs tests of op kernels on a GPU ------------------===//
//
// Linked in place of test/kernels/RunKernel.cpp.
//
//===----------------------------------------------------------------------===//

#include "test/kernels/cuda/OnGpu.h"

namespace moek {

// No CPU kernels are linked.
KernelFn resolveKernel(std::string_view) { return nullptr; }

} // namespace moek

namespace moek::test {

void runKernel(const KernelInfo &kernel, const void *args, Step step, size_t,
               std::vector<Output *> outputs) {
  std::vector<std::vector<uint8_t>> first;
  for (int run = 0; run < 2; ++run) {
    for (Output *output : outputs)
      output->reset();
    runOnGpu(kernel.op, args, step, {});
    if (testing::Test::HasFatalFailure())
      return;
    std::vector<std::vector<uint8_t>> now;
    for (Output *output : outputs) {
      output->expectOnlyPayloadWritten();
      now.push_back(output->bytes());
    }
    if (first.empty())
      first = now;
    EXPECT_TRUE(now == first) << "differs from the first run";
    if (GpuTest::get().gpu->isSoftware())
      return; // The software GPU gives the same result each time, and is slow.
  }
}

void runOnce(const KernelInfo &kernel, const void *args, Step step, size_t) {
  runOnGpu(kernel.op, args, step, {});
}

std::vector<Format> allFormats() {
  std::vector<Format> formats;
  for (const GemmInfo &gemm : gemmTable())
    if (gemm.isa == Isa::Cuda && gemm.layout == Layout::Gguf)
      formats.push_back(gemm.format);
  return formats;
}

std::vector<KernelInfo> kernelsOf(OpCode op) {
  std::vector<KernelInfo> result;
  for (const KernelInfo &kernel : kernelTable())
    if (kernel.op == op && kernel.isa == Isa::Cuda)
      result.push_back(kernel);
  return result;
}

} // namespace moek::test
