//===- LatentAttention.h - Attention on the latent cache --------*- C++ -*-===//
//
// The cache rows themselves are keys and values, which all heads share (as in
// multi-query attention).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_LATENTATTENTION_H
#define MOE_KERNELS_CPU_LATENTATTENTION_H

#include "kernels/Abi.h"
#include "kernels/cpu/KvSplits.h"

namespace moek {

template <class S>
void run(const LatentAttentionArgs &a, const Step &step, const Worker &worker) {
  const SplitOperands work{a.q,
                           a.qStride,
                           a.kv,
                           /*sinks=*/nullptr,
                           a.out,
                           a.outStride,
                           a.heads,
                           a.splits,
                           kNoWindow,
                           {a.latent + a.rope, a.latent, a.heads},
                           a.scale,
                           /*cap=*/0,
                           kLatentHeads};
  auto *stats = reinterpret_cast<float *>(worker.scratch);
  std::byte *scratch = worker.scratch + 2 * scratchFloats(a.heads) * 4;
  auto attend = [&](auto part) {
    forSequences(step, worker, [&](const SequenceRows &s, const Worker &w) {
      attendSplits<S>(work, s, w, part, stats);
    });
  };
  if constexpr (requires { typename S::Q8Products; }) {
    if (a.kv.type == KvType::Q8_0)
      return attend(Q8Split<S>(work, a.heads, scratch));
  }
  attend(FloatSplit<S>(work, a.heads, scratch));
}

} // namespace moek

#endif // MOE_KERNELS_CPU_LATENTATTENTION_H
