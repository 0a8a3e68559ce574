//===- Probe.cpp - What plans assume of a GPU, its link and its driver ----===//
//
// gpu_probe [--driver LIBRARY] [--small] [NAME...] measures what moec predicts
// with and moert relies on, and prints a JSON object a line: name, unit, value.
// Names choose measurements. --small makes them so small that the software GPU
// does each within a second; the figures then mean nothing.
//
//===----------------------------------------------------------------------===//

#include "test/kernels/cuda/Probe.h"

#include "compiler/Cuda/Nvrtc.h"
#include "test/kernels/cuda/ProbeKernels.h"

#include <fmt/format.h>
#include <vector>

namespace moek::test {

Status Probe::load() {
  MOE_ASSIGN_OR_RETURN(moec::Nvrtc nvrtc, moec::Nvrtc::open());
  nvrtc_ = fmt::format("{}.{}", nvrtc.versionMajor(), nvrtc.versionMinor());
  int arch = nvrtc.archs().front();
  for (int known : nvrtc.archs())
    if (known <= gpu_.arch)
      arch = known;
  MOE_ASSIGN_OR_RETURN(moec::NvrtcOutput code,
                       nvrtc.compile("probe.cu", kProbeKernels, {}, {}, arch));
  cu::Module module = nullptr;
  if (api().cuModuleLoadData(&module, code.cubin.data()) != cu::kSuccess)
    MOE_RETURN_IF_ERROR(check(api().cuModuleLoadData(&module, code.ptx.c_str()),
                              "loading the probe's kernels"));
  module_ = {module, api().cuModuleUnload};
  for (const char *name :
       {"nothing", "flagRounds", "patternRounds", "fill", "readAll"})
    MOE_RETURN_IF_ERROR(check(
        api().cuModuleGetFunction(&functions_[name], module, name), name));
  return Status::ok();
}

} // namespace moek::test

using namespace moek::test;

namespace {
/// Text that may stand between quotes in JSON.
std::string plain(std::string text) {
  for (char &c : text)
    if (c == '"' || c == '\\' || uint8_t(c) < 32)
      c = '\'';
  return text;
}

struct Measurement {
  const char *name;
  Status (Probe::*run)();
};
constexpr Measurement kMeasurements[] = {
    {"device", &Probe::device},       {"launches", &Probe::launches},
    {"flags", &Probe::flagsByKernel}, {"nodes", &Probe::flagsByNodes},
    {"patterns", &Probe::patterns},   {"reads", &Probe::reads},
    {"link", &Probe::link},           {"pinning", &Probe::pinning}};

/// A failed measurement is a line of its own and the last one.
int measureAll(const std::string &library, bool isSmall,
               const std::vector<std::string> &names) {
  StatusOr<CudaDriver> driver = CudaDriver::load(library);
  StatusOr<std::unique_ptr<Probe>> probe =
      driver ? Probe::open(*driver, isSmall)
             : StatusOr<std::unique_ptr<Probe>>(driver.status());
  if (!probe) {
    fmt::print(stderr, "error: {}\n", probe.status().message());
    return exitCode(probe.status().code());
  }
  for (const Measurement &m : kMeasurements) {
    if (!names.empty() && std::ranges::find(names, m.name) == names.end())
      continue;
    if (Status status = ((*probe).get()->*m.run)(); !status.isOk()) {
      fmt::print("{{\"probe\": \"{}\", \"error\": \"{}\"}}\n", m.name,
                 plain(status.message()));
      std::fflush(stdout);
      // A kernel may still wait for a flag, and so would whatever waits for the
      // device.
      std::_Exit(1);
    }
  }
  return 0;
}
} // namespace

int main(int argc, char **argv) {
  std::string library = CudaDriver::kLibrary;
  bool isSmall = false;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--small") {
      isSmall = true;
    } else if (word == "--driver" && i + 1 < argc) {
      library = argv[++i];
    } else if (std::ranges::find(kMeasurements, word, &Measurement::name) !=
               std::end(kMeasurements)) {
      names.push_back(word);
    } else {
      fmt::print(
          stderr,
          "usage: {} [--driver LIBRARY] [--small] [NAME...]\nnames:", argv[0]);
      for (const Measurement &m : kMeasurements)
        fmt::print(stderr, " {}", m.name);
      fmt::print(stderr, "\n");
      return 2;
    }
  }
  return measureAll(library, isSmall, names);
}
