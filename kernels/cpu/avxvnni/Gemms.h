//===- Gemms.h - The AVX-VNNI gemms: those of AVX2, vpdpbusd ----*- C++ -*-===//

#include "kernels/cpu/avx2/Gemms.h"
