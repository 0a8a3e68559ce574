//===- ClockMain.cpp - Simulated times of CUDA kernels --------------------===//
//
// cuda_clock [--gpu NAME] [--json] [NAME] prints the rows of cuda_bench whose
// names contain NAME, as the software GPU's clock predicts them for GPUs of its
// table. No GPU is needed.
//
// cuda_clock --targets FOLDER [--gpu NAME] [--most-rows N] [KERNEL] writes
// simulated rates of kernels whose names contain KERNEL into the descriptions
// of GPUs in FOLDER.
//
//===----------------------------------------------------------------------===//

#include "test/kernels/cuda/ClockedGpu.h"
#include "test/kernels/cuda/Rows.h"
#include "test/kernels/cuda/TargetRates.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

using namespace moek;
using namespace moek::test;

namespace {

struct Options {
  std::string gpu, filter, targets;
  int32_t mostRows = 0;
  int stalls = 0;
  bool isJson = false;
  uint64_t budget = ClockedGpu::kBudget;
};

/// Prints a row for one copy of its work, and one for each of its launches.
void print(const Options &options, const softgpu::GpuModel &model,
           const Row &row) {
  ClockedGpu gpu(model, options.budget);
  gpu.listStalls(options.stalls);
  Workbench make(gpu);
  Workload work = row.make(make, 1);
  std::vector<softgpu::LaunchTime> times;
  double seconds = gpu.secondsOf(work.launches, &times);
  double rate = double(work.weightBytes) / seconds / 1e9;
  if (options.isJson) {
    fmt::print("{{\"gpu\": \"{}\", \"row\": \"{}\", \"seconds\": {:.4g}, "
               "\"bytes_per_second\": {:.4g}, \"ops\": {:.4g}, \"launches\": [",
               model.name, row.name, seconds, rate * 1e9,
               work.operations / seconds);
    for (size_t i = 0; i < times.size(); ++i)
      fmt::print("{}{{\"seconds\": {:.4g}, \"bound\": \"{}\", \"blocks\": {}, "
                 "\"executed\": {}, \"resident\": {}}}",
                 i ? ", " : "", times[i].seconds, times[i].bound(),
                 times[i].blocks, times[i].executed, times[i].resident);
    fmt::print("]}}\n");
    std::fflush(stdout);
    return;
  }
  fmt::print("{:5} {:44} {:9.2f} us {:7.1f} GB/s {:3.0f} % {:7.2f} TOPS\n",
             model.name, row.name, seconds * 1e6, rate,
             100 * rate / model.gigabytes, work.operations / seconds / 1e12);
  for (const softgpu::LaunchTime &t : times) {
    fmt::print("      {:9.2f} us, {}; {} blocks ({} executed), {} on each of "
               "{}; busy: issue {:.0f} %, float {:.0f}, integer {:.0f}, "
               "special {:.0f}, mma {:.0f}, shared {:.0f}, L2 {:.0f}, DRAM "
               "{:.0f}\n",
               t.seconds * 1e6, t.bound(), t.blocks, t.executed, t.resident,
               t.busy, 100 * t.issue, 100 * t.floats, 100 * t.integers,
               100 * t.special, 100 * t.tensor, 100 * t.shared, 100 * t.l2,
               100 * t.dram);
    for (const std::string &stall : t.stalls)
      fmt::print("          {}\n", stall);
  }
  std::fflush(stdout);
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app("Predicts times of kernels on GPUs that this machine does not "
               "have.");
  app.add_option("NAME", options.filter,
                 "Rows whose names contain it; with --targets, kernels");
  app.add_option("--gpu", options.gpu, "One GPU instead of all")
      ->check(CLI::IsMember(softgpu::gpuNames()));
  app.add_option("--budget", options.budget,
                 "Instructions of warps after which no further block of a "
                 "launch is executed")
      ->capture_default_str();
  app.add_option("--targets", options.targets,
                 "Write simulated rates into the descriptions in this folder")
      ->check(CLI::ExistingDirectory);
  app.add_option("--most-rows", options.mostRows,
                 "With --targets: of products only rates of at most so many "
                 "rows; 0 is all. Others stay")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--stalls", options.stalls,
                 "List where a warp of the block that ends last waited for so "
                 "many cycles")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--json", options.isJson, "Print a JSON object for each row");
  CLI11_PARSE(app, argc, argv);
  GpuTest &test = GpuTest::get();
  if (!test.compiler || !softgpu::isSoftGpuSupported()) {
    fmt::print(stderr, "error: {}\n",
               test.compiler ? "this CPU cannot run the software GPU"
                             : test.why);
    return 1;
  }
  if (!options.targets.empty()) {
    for (const softgpu::GpuModel &model : softgpu::gpuModels()) {
      if (!options.gpu.empty() && model.name != options.gpu)
        continue;
      RatesChoice choice{options.filter, options.mostRows};
      std::string wrong = writeRates(options.targets, model, choice,
                                     simulatedRates(model, choice));
      if (!wrong.empty()) {
        fmt::print(stderr, "error: {}\n", wrong);
        return 1;
      }
    }
    return 0;
  }
  for (const Row &row : benchRows()) {
    if (row.name.find(options.filter) == std::string::npos)
      continue;
    for (const softgpu::GpuModel &model : softgpu::gpuModels())
      if (options.gpu.empty() || model.name == options.gpu)
        print(options, model, row);
  }
  return 0;
}
