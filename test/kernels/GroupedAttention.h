//===- GroupedAttention.h - Attention with grouped KV heads -----*- C++ -*-===//

#ifndef MOE_TEST_KERNELS_GROUPEDATTENTION_H
#define MOE_TEST_KERNELS_GROUPEDATTENTION_H

#include "test/kernels/AttentionModel.h"

namespace moek::test {

/// First columns of a head's key and value in a cache row.
inline int64_t keyColumn(int64_t kvHead, int64_t key) {
  return kvHead * gqaPaddedWidth(key);
}
inline int64_t valueColumn(int64_t kvHead, int64_t kvHeads, int64_t key,
                           int64_t value) {
  return kvHeads * gqaPaddedWidth(key) + kvHead * gqaPaddedWidth(value);
}

/// Runs Attention and, if it leaves KV splits, CombineSplits of its ISA. `args`
/// has everything but the output.
inline void runAttention(const KernelInfo &kernel, AttentionArgs args,
                         Step step, Matrix<float> &out) {
  auto scratch = size_t(
      attentionScratchBytes(args.heads, args.kvHeads, args.key, args.value));
  Matrix<float> spans(step.tokens * args.splits, args.heads * (args.value + 2),
                      3);
  Matrix<float> &to = args.splits > 1 ? spans : out;
  args.out = to.data();
  args.outStride = to.stride;
  runKernel(kernel, &args, step, scratch, {&to});
  if (args.splits == 1)
    return;
  CombineSplitsArgs combine{spans.data(), spans.stride, out.data(),
                            out.stride,   args.heads,   args.value,
                            args.splits,  args.window};
  for (const KernelInfo &other : kernelsOf(OpCode::CombineSplits))
    if (other.isa == kernel.isa)
      runKernel(other, &combine, step, 0, {&out});
}

} // namespace moek::test

#endif // MOE_TEST_KERNELS_GROUPEDATTENTION_H
