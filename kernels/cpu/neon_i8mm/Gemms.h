//===- Gemms.h - The NEON gemms with matrix products (I8MM) -----*- C++ -*-===//

#include "kernels/cpu/lanes8/Gemms.h"
