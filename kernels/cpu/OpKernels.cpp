//===- OpKernels.cpp - Defines the op kernels of an instruction set -------===//

#include "kernels/OpKernels.h"

#include "kernels/cpu/AllOpKernels.h"
#include "kernels/cpu/OfIsa.h"

#if defined(MOE_OF_avx512)
#include "kernels/cpu/avx512/Q8Products.h"
#elif defined(MOE_OF_avx2)
#include "kernels/cpu/avx2/Q8Products.h"
#elif defined(MOE_OF_neon)
#include "kernels/cpu/neon/Simd.h"
#else
#include "kernels/ref/Scalar.h"
#endif

namespace moek {

#define MOE_KERNEL(name, op, isa)                                              \
  MOE_IF_ISA(                                                                  \
      isa, void name(const op##Args &args, const Step &step,                   \
                     const Worker &worker) {                                   \
        run<MOE_ISA::Simd>(args, step, worker);                                \
      })
#include "kernels/Kernels.def"

} // namespace moek
