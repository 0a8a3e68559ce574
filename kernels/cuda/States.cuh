//===- States.cuh - State rows of sequences (kernels/KvCache.h) -*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_STATES_CUH
#define MOE_KERNELS_CUDA_STATES_CUH

#include "kernels/cuda/Device.cuh"

/// Returns a sequence's row of a state.
MOE_DEVICE float *stateOf(const Kv &state, const Sequence &s) {
  return (float *)(state.data + s.state * state.rowStride);
}

#endif // MOE_KERNELS_CUDA_STATES_CUH
