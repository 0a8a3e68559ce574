//===- Gemms.h - The NEON gemms ---------------------------------*- C++ -*-===//

#include "kernels/cpu/lanes8/Gemms.h"
