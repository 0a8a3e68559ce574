#include "compiler/Driver/Forecast.h"

#include "compiler/Explain/Summary.h"
#include "dialects/plan/Plan.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

using moert::PhaseKind;

namespace moec {

static std::optional<PhaseKind> kindOf(llvm::StringRef phase) {
  return moert::phaseKindOf(std::string_view(phase));
}

Forecast forecastOf(mlir::plan::ProgramOp program) {
  Forecast forecast;
  std::map<std::string, Forecast::Device *> byName;
  auto &body = program.getBody();
  for (auto device : body.getOps<mlir::plan::DeviceOp>())
    forecast.devices.push_back(
        {device.getName().str(),
         uint64_t(device.getWeightBytes() + device.getKvBytes() +
                  device.getArenaBytes() + device.getWorkspaceBytes() +
                  (device.getScratchBytes() + device.getWorkerBytes()) *
                      device.getCores()),
         uint64_t(device.getMemoryBytes()), 0,
         device.getKind() == mlir::plan::DeviceKind::Cpu,
         device.getSharesMemory()});
  uint64_t shared = 0;
  for (const Forecast::Device &device : forecast.devices)
    shared += device.sharesMemory ? device.usedBytes : 0;
  for (Forecast::Device &device : forecast.devices)
    device.usedBytes += device.isCpu ? shared : 0;
  for (Forecast::Device &device : forecast.devices)
    byName[device.name] = &device;

  // The speed of prompts is that of the phase with the longest steps; see
  // ExplainSummary::prefill.
  mlir::plan::PhaseOp longest;
  bool decodeHasHead = false;
  for (auto phase : body.getOps<mlir::plan::PhaseOp>()) {
    decodeHasHead |= phase.getWithHead();
    if (auto kind = kindOf(phase.getName());
        kind && isPrefill(*kind) &&
        (!longest || phase.getMaxTokens() > longest.getMaxTokens()))
      longest = phase;
  }
  double token = 0, prefill = 0, most = 0;
  // Seconds per token by device and part, summed over layers.
  std::map<std::pair<std::string, std::string>, double> parts;
  for (auto entry : body.getOps<mlir::plan::ExplainOp>()) {
    double seconds = entry.getSeconds().convertToDouble();
    if (longest && entry.getPhase() == longest.getName())
      prefill += seconds;
    if (auto kind = kindOf(entry.getPhase());
        !kind || !has(*kind, moert::kOfEveryToken) ||
        (has(*kind, moert::kIsHead) && decodeHasHead))
      continue;
    token += seconds;
    if (auto it = byName.find(entry.getDevice().str()); it != byName.end()) {
      it->second->decodeSeconds += seconds;
      parts[{it->first, entry.getPart().str()}] += seconds;
    }
  }
  if (prefill > 0)
    forecast.prefillRate = double(longest.getMaxTokens()) / prefill;
  if (token > 0)
    forecast.decodeRate = 1 / token;
  for (const auto &[name, seconds] : parts)
    if (seconds > most) {
      most = seconds;
      forecast.bottleneck =
          fmt::format("{}, {} {:.0f} % of a token", name.first, name.second,
                      100 * seconds / token);
    }
  return forecast;
}

} // namespace moec
