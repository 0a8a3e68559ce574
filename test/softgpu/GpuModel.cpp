#include "test/softgpu/GpuModel.h"

namespace softgpu {

// Clocks, bandwidths, tensor peaks: NVIDIA's data sheets and white papers.
// Lanes: CUDA C++ Programming Guide, "Throughput of native arithmetic
// instructions". L1 and L2 sizes: white papers. Latencies of memory and mma of
// A100, 4090 and H100: arXiv 2402.13499 and 2501.12084 (pointer chasing; mma
// with dependent sums); those of the 3090 are the 4090's without its larger L2,
// those of the 5090 from arXiv 2507.10789 (GB203). Rates of L2: read kernels
// that fit it give about 5.5 TB/s on an H100 and a 4090. mma.sync reaches 63 %
// of an H100's peak, which needs wgmma (arXiv 2402.13499). The part of DRAM's
// rate: a copy gives 81 % on an H100 (test/bench/README.md), a read kernel 91 %
// on a 3090.
std::span<const GpuModel> gpuModels() {
  static constexpr GpuModel kModels[] = {{"3090",
                                          86,
                                          82,
                                          1.695,
                                          936,
                                          16,
                                          1024,
                                          256,
                                          128,
                                          64,
                                          true,
                                          1,
                                          0.91,
                                          128,
                                          6,
                                          {4, 22, 23, 33, 30, 40, 240, 500}},
                                         {"4090",
                                          89,
                                          128,
                                          2.52,
                                          1008,
                                          16,
                                          1024,
                                          256,
                                          128,
                                          64,
                                          true,
                                          1,
                                          0.91,
                                          128,
                                          72,
                                          {4, 22, 23, 33, 30, 43, 273, 541}},
                                         {"5090",
                                          120,
                                          170,
                                          2.41,
                                          1792,
                                          16,
                                          1024,
                                          256,
                                          128,
                                          128,
                                          true,
                                          1,
                                          0.91,
                                          128,
                                          96,
                                          {4, 22, 23, 33, 30, 43, 358, 877}},
                                         {"A100",
                                          80,
                                          108,
                                          1.41,
                                          1555,
                                          32,
                                          2048,
                                          1024,
                                          64,
                                          64,
                                          false,
                                          1,
                                          0.88,
                                          192,
                                          40,
                                          {4, 22, 23, 33, 29, 38, 262, 466}},
                                         {"H100",
                                          90,
                                          132,
                                          1.83,
                                          3350,
                                          24,
                                          4096,
                                          2048,
                                          128,
                                          64,
                                          false,
                                          0.63,
                                          0.81,
                                          256,
                                          50,
                                          {4, 22, 23, 33, 29, 41, 263, 640}}};
  return kModels;
}

const GpuModel *findGpuModel(std::string_view name) {
  for (const GpuModel &model : gpuModels())
    if (model.name == name)
      return &model;
  return nullptr;
}

} // namespace softgpu
