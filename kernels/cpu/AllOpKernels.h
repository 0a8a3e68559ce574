//===- AllOpKernels.h - Includes run<S>() of every op's kernel --*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_ALLOPKERNELS_H
#define MOE_KERNELS_CPU_ALLOPKERNELS_H

#include "kernels/cpu/Attention.h"
#include "kernels/cpu/BlockAttention.h"
#include "kernels/cpu/Candidates.h"
#include "kernels/cpu/Compress.h"
#include "kernels/cpu/Copy.h"
#include "kernels/cpu/DeltaNet.h"
#include "kernels/cpu/Elementwise.h"
#include "kernels/cpu/Experts.h"
#include "kernels/cpu/Gemm.h"
#include "kernels/cpu/HeadLinear.h"
#include "kernels/cpu/HyperConnections.h"
#include "kernels/cpu/LatentAttention.h"
#include "kernels/cpu/MlaAttention.h"
#include "kernels/cpu/Ngrams.h"
#include "kernels/cpu/Residuals.h"
#include "kernels/cpu/Rope.h"
#include "kernels/cpu/Router.h"
#include "kernels/cpu/Sparse.h"

#endif // MOE_KERNELS_CPU_ALLOPKERNELS_H
