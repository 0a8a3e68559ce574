#include "test/softgpu/GpuModel.h"

namespace softgpu {

// Clocks, bandwidths, tensor peaks: NVIDIA's data sheets and white papers.
// Lanes: CUDA C++ Programming Guide, "Throughput of native arithmetic
// instructions". L1 and L2 sizes: white papers. Latencies of memory and mma of
// A100, 4090 and H100: arXiv 2402.13499 and 2501.12084 (pointer chasing; mma
// with dependent sums); those of the 3090 are the 4090's without its larger L2,
// those of the 5090 from arXiv 2507.10789 (GB203). An H100 has 263 cycles to
// the near half of L2 and 479 to DRAM there; with the far half and TLB misses,
// 300 and 640 fit what was measured (test/bench/README.md, "Simulated times").
// Rates of L2 are an assumption: read kernels that fit it give about 5.5 TB/s
// on an H100 and a 4090. mma.sync reaches 63 % of an H100's peak, which needs
// wgmma (arXiv 2402.13499). The part of DRAM's rate: a copy gives 81 % on an
// H100 (test/bench/README.md, "Kernels on a GPU"), a read kernel 91 % on a
// 3090.
static constexpr GpuModel k3090 = {.name = "3090",
                                   .arch = 86,
                                   .multiprocessors = 82,
                                   .gigahertz = 1.695,
                                   .gigabytes = 936,
                                   .l2Bytes = 16,
                                   .int8Macs = 1024,
                                   .halfMacs = 256,
                                   .floatLanes = 128,
                                   .integerLanes = 64,
                                   .isShared = true,
                                   .mmaSync = 1,
                                   .dramEfficiency = 0.91,
                                   .l1Kilobytes = 128,
                                   .l2Megabytes = 6,
                                   .latency = {.arithmetic = 4,
                                               .special = 22,
                                               .shuffle = 23,
                                               .mma = 33,
                                               .shared = 30,
                                               .l1 = 40,
                                               .l2 = 240,
                                               .dram = 500}};
static constexpr GpuModel k4090 = {.name = "4090",
                                   .arch = 89,
                                   .multiprocessors = 128,
                                   .gigahertz = 2.52,
                                   .gigabytes = 1008,
                                   .l2Bytes = 16,
                                   .int8Macs = 1024,
                                   .halfMacs = 256,
                                   .floatLanes = 128,
                                   .integerLanes = 64,
                                   .isShared = true,
                                   .mmaSync = 1,
                                   .dramEfficiency = 0.91,
                                   .l1Kilobytes = 128,
                                   .l2Megabytes = 72,
                                   .latency = {.arithmetic = 4,
                                               .special = 22,
                                               .shuffle = 23,
                                               .mma = 33,
                                               .shared = 30,
                                               .l1 = 43,
                                               .l2 = 273,
                                               .dram = 541}};
static constexpr GpuModel k5090 = {.name = "5090",
                                   .arch = 120,
                                   .multiprocessors = 170,
                                   .gigahertz = 2.41,
                                   .gigabytes = 1792,
                                   .l2Bytes = 16,
                                   .int8Macs = 1024,
                                   .halfMacs = 256,
                                   .floatLanes = 128,
                                   .integerLanes = 128,
                                   .isShared = true,
                                   .mmaSync = 1,
                                   .dramEfficiency = 0.91,
                                   .l1Kilobytes = 128,
                                   .l2Megabytes = 96,
                                   .latency = {.arithmetic = 4,
                                               .special = 22,
                                               .shuffle = 23,
                                               .mma = 33,
                                               .shared = 30,
                                               .l1 = 43,
                                               .l2 = 358,
                                               .dram = 877}};
static constexpr GpuModel kA100 = {.name = "A100",
                                   .arch = 80,
                                   .multiprocessors = 108,
                                   .gigahertz = 1.41,
                                   .gigabytes = 1555,
                                   .l2Bytes = 32,
                                   .int8Macs = 2048,
                                   .halfMacs = 1024,
                                   .floatLanes = 64,
                                   .integerLanes = 64,
                                   .isShared = false,
                                   .mmaSync = 1,
                                   .dramEfficiency = 0.88,
                                   .l1Kilobytes = 192,
                                   .l2Megabytes = 40,
                                   .latency = {.arithmetic = 4,
                                               .special = 22,
                                               .shuffle = 23,
                                               .mma = 33,
                                               .shared = 29,
                                               .l1 = 38,
                                               .l2 = 262,
                                               .dram = 466}};
static constexpr GpuModel kH100 = {
    .name = "H100",
    .arch = 90,
    .multiprocessors = 132,
    .gigahertz = 1.83,
    .gigabytes = 3350,
    .l2Bytes = 24,
    .int8Macs = 4096,
    .halfMacs = 2048,
    .floatLanes = 128,
    .integerLanes = 64,
    .isShared = false,
    .mmaSync = 0.63,
    .dramEfficiency = 0.81,
    .l1Kilobytes = 256,
    .l2Megabytes = 50,
    .latency = {.arithmetic = 4,
                .special = 22,
                .shuffle = 23,
                .mma = 33,
                .shared = 29,
                .l1 = 41,
                .l2 = 300,
                .dram = 640},
    // An assumption; parts have up to 18.
    .clusterParts = {16, 16, 16, 16, 16, 16, 18, 18}};

std::span<const GpuModel> gpuModels() {
  static constexpr GpuModel kModels[] = {k3090, k4090, k5090, kA100, kH100};
  return kModels;
}

int GpuModel::clustersOf(int blocks) const {
  int count = 0;
  for (int part : clusterParts)
    count += part / blocks;
  return count;
}

std::vector<std::string> gpuNames() {
  std::vector<std::string> names;
  for (const GpuModel &model : gpuModels())
    names.emplace_back(model.name);
  return names;
}

const GpuModel *findGpuModel(std::string_view name) {
  for (const GpuModel &model : gpuModels())
    if (model.name == name)
      return &model;
  return nullptr;
}

} // namespace softgpu
