//===- RunKernel.cpp - Runs tests of op kernels on this CPU ---------------===//

#include "test/kernels/KernelTest.h"

namespace moek::test {

void runKernel(const KernelInfo &kernel, const void *args, Step step,
               size_t scratchBytes, std::vector<Output *> outputs) {
  KernelFn function = resolveKernel(kernel.name);
  ASSERT_NE(function, nullptr) << kernel.name;
  std::vector<std::vector<uint8_t>> first;
  for (TestWorkers &team : testTeams()) {
    SCOPED_TRACE(testing::Message()
                 << team.workers << " workers, " << team.nodes
                 << " nodes, tickets " << team.withTickets);
    for (Output *output : outputs)
      output->reset();
    // Workers run in any order. Running the last one first reveals dependences
    // between workers, and it takes over the others' tickets.
    for (int i = team.workers - 1; i >= 0; --i) {
      Guarded scratch(scratchBytes);
      scratch.poison();
      function(args, step, team.worker(i, scratch.data()));
      scratch.expectGuardsIntact("scratch");
    }
    std::vector<std::vector<uint8_t>> now;
    for (Output *output : outputs) {
      output->expectOnlyPayloadWritten();
      now.push_back(output->bytes());
    }
    if (first.empty())
      first = now;
    EXPECT_TRUE(now == first) << "differs from the result of one worker";
  }
}

void runOnce(const KernelInfo &kernel, const void *args, Step step,
             size_t scratchBytes) {
  Guarded scratch(scratchBytes);
  scratch.poison();
  resolveKernel(kernel.name)(args, step, {0, 1, scratch.data()});
  scratch.expectGuardsIntact("scratch");
}

std::vector<Format> allFormats() {
  return {
#define MOE_FORMAT(name, id, elements, bytes) Format::name,
#include "kernels/quant/Formats.def"
  };
}

std::vector<KernelInfo> kernelsOf(OpCode op) {
  std::vector<KernelInfo> result;
  for (const KernelInfo &kernel : kernelTable())
    if (kernel.op == op && kernel.isa != Isa::Cuda && hostSupports(kernel.isa))
      result.push_back(kernel);
  return result;
}

} // namespace moek::test
