//===- FakeCuda.h - A libcuda without GPUs ----------------------*- C++ -*-===//
//
// A shared library with the driver's entry points, to be opened by path. Copies
// take the time that the rates below give, on a clock that advances only by
// copies.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SUPPORT_FAKECUDA_H
#define MOE_TEST_SUPPORT_FAKECUDA_H

#include "runtime/device/cuda/CudaApi.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace moetest {

struct FakeGpu {
  std::string name = "Fake RTX 4090";
  std::string address = "0000:01:00.0";
  uint64_t memoryBytes = uint64_t(24) << 30;
  uint64_t usedBytes = uint64_t(1) << 30; ///< Bytes that other programs use.
  std::map<moert::cu::Attribute, int> attributes = {
      {moert::cu::kClockKhz, 2'520'000},
      {moert::cu::kMultiprocessors, 128},
      {moert::cu::kMemoryClockKhz, 10'501'000},
      {moert::cu::kMemoryBusBits, 384},
      {moert::cu::kL2Bytes, 72 << 20},
      {moert::cu::kCapabilityMajor, 8},
      {moert::cu::kCapabilityMinor, 9}};
  /// Bytes copied per second.
  double withinDevice = 460e9, toDevice = 26e9, toHost = 25e9;
};

struct FakeCuda {
  std::vector<FakeGpu> gpus;
  /// Results of calls that fail instead of working, by symbol.
  std::map<std::string, moert::cu::Result> failures;

  /// For tests: calls by symbol, memory in use by this process, and the number
  /// of objects that were created and not freed.
  std::map<std::string, int> calls;
  uint64_t allocatedBytes = 0;
  int live = 0;
};

/// Returns the library's state, for the test that links it.
FakeCuda &fakeCuda();

} // namespace moetest

#endif // MOE_TEST_SUPPORT_FAKECUDA_H
