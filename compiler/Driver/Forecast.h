//===- Forecast.h - What a plan would need and do ---------------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_FORECAST_H
#define MOE_COMPILER_DRIVER_FORECAST_H

#include <cstdint>
#include <string>
#include <vector>

namespace mlir::plan {
class ProgramOp;
} // namespace mlir::plan

namespace moec {

/// Of a plan that need not be written: what its explanation sums up to.
struct Forecast {
  struct Device {
    std::string name;
    uint64_t usedBytes = 0, budgetBytes = 0;
    double decodeSeconds = 0; ///< That it works for a token.
  };
  std::vector<Device> devices;
  double prefillRate = 0, decodeRate = 0; ///< Tokens per second; 0: none.
  std::string bottleneck; ///< "cpu0, ffn_experts 71 % of a token", or "".
};

Forecast forecastOf(mlir::plan::ProgramOp program);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_FORECAST_H
