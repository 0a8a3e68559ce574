//===- Drivers.cpp - The drivers, compiled for any CPU -------------------===//

#include "kernels/Drivers.h"

#include "kernels/cpu/AllDrivers.h"
#include "kernels/ref/Scalar.h"

namespace moek {

#define MOE_RUN_Ref(name, op)
#define MOE_RUN_Avx2(name, op)
#define MOE_RUN_Avx512(name, op)
#undef MOE_RUN_Ref
#define MOE_RUN_Ref(name, op)                                                  \
  void name(const op##Args &args, const Step &step, const Worker &worker) {    \
    run<ref::Scalar>(args, step, worker);                                      \
  }
#define MOE_KERNEL(name, op, isa) MOE_RUN_##isa(name, op)
#include "kernels/Kernels.def"

} // namespace moek
