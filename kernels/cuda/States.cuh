//===- States.cuh - State rows of sequences (kernels/KvCache.h) -*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_STATES_CUH
#define MOE_KERNELS_CUDA_STATES_CUH

#include "kernels/cuda/Device.cuh"

/// Returns a sequence's row of a state.
MOE_DEVICE float *stateOf(const Kv &state, const Sequence &s) {
  return (float *)(state.data + s.state * state.rowStride);
}

#ifdef MOE_SUMS
/// First columns of a head's query, key and value in a row of DeltaRule's x.
/// MOE_SUMS, MOE_CHANNELS: its parameters `sums` and `channels`.
struct DeltaColumns {
  i64 query, key, value;
};
MOE_DEVICE DeltaColumns columnsOf(const DeltaRuleArgs &a, int head) {
  int of = a.tiled ? head % a.keyHeads : head / (a.heads / a.keyHeads);
  i64 keys = i64(a.keyHeads) * MOE_KEY, values = i64(a.heads) * a.value;
  i64 key = i64(of) * MOE_KEY, value = i64(head) * a.value;
  if (MOE_SUMS)
    return {values + keys + key, values + key, value};
  return {key, keys + key, 2 * keys + value};
}

/// Returns the decays of a head in row `t`: one, or with MOE_CHANNELS one for
/// each element of its key.
MOE_DEVICE const float *decaysOf(const DeltaRuleArgs &a, int t, int head) {
  return a.gates + t * a.gatesStride + a.heads +
         i64(head) * (MOE_CHANNELS ? MOE_KEY : 1);
}
#endif

#endif // MOE_KERNELS_CUDA_STATES_CUH
