//===- Forecast.h - Predicted memory and speed of a plan --------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_FORECAST_H
#define MOE_COMPILER_DRIVER_FORECAST_H

#include <cstdint>
#include <string>
#include <vector>

namespace mlir::plan {
class ProgramOp;
} // namespace mlir::plan

namespace moec {

/// Memory and speed of a plan, summed up from its explanation.
struct Forecast {
  struct Device {
    std::string name;
    /// Memory in use; for a CPU including GPUs that share its memory.
    uint64_t usedBytes = 0;
    uint64_t budgetBytes = 0;
    double decodeSeconds = 0; ///< Time for which the device works per token.
    bool isCpu = false;
    bool sharesMemory = false; ///< A GPU whose memory is the CPU's.
  };
  std::vector<Device> devices;
  /// Tokens per second; 0: the plan has no such phase.
  double prefillRate = 0, decodeRate = 0;
  std::string bottleneck; ///< "cpu0, ffn_experts 71 % of a token", or "".
};

Forecast forecastOf(mlir::plan::ProgramOp program);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_FORECAST_H
