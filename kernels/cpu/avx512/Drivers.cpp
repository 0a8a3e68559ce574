//===- Drivers.cpp - The drivers, compiled for AVX-512 -------------------===//

#include "kernels/Drivers.h"

#include "kernels/cpu/AllDrivers.h"
#include "kernels/cpu/avx512/Q8Products.h"
#include "kernels/cpu/avx512/Simd.h"

namespace moek {

void avx512::Dequant::F32(const uint8_t *row, int64_t cols, float *out) {
  readKv<Simd>(KvType::F32, row, cols, out);
}
void avx512::Dequant::F16(const uint8_t *row, int64_t cols, float *out) {
  readKv<Simd>(KvType::F16, row, cols, out);
}
void avx512::Dequant::BF16(const uint8_t *row, int64_t cols, float *out) {
  readKv<Simd>(KvType::BF16, row, cols, out);
}

#define MOE_RUN_Ref(name, op)
#define MOE_RUN_Avx2(name, op)
#define MOE_RUN_Avx512(name, op)
#undef MOE_RUN_Avx512
#define MOE_RUN_Avx512(name, op)                                               \
  void name(const op##Args &args, const Step &step, const Worker &worker) {    \
    run<avx512::Simd>(args, step, worker);                                     \
  }
#define MOE_KERNEL(name, op, isa) MOE_RUN_##isa(name, op)
#include "kernels/Kernels.def"

} // namespace moek
