//===- Gemms.h - The AVX2 gemms ---------------------------------*- C++ -*-===//

#include "kernels/cpu/lanes8/Gemms.h"
