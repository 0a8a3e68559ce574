//===- ExpertShares.h - Whose experts tokens choose -------------*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_EXPERTSHARES_H
#define MOE_TOOLS_MOERT_EXPERTSHARES_H

#include "runtime/engine/RouterWatch.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace moert {

/// Of the layers whose experts are on several devices.
class ExpertShares {
public:
  explicit ExpertShares(const Plan &plan);

  /// Whether there are such layers.
  bool hasSplits() const { return !owners_.empty(); }

  void add(const RouterChoice &choice);

  struct Share {
    std::string device;
    double expected; ///< If all experts were alike.
    double seen;     ///< Of all choices so far.
  };
  /// Of the devices that have any of these experts, in the plan's order.
  std::vector<Share> shares() const;

private:
  std::vector<std::string> devices_;
  /// By layer: of each expert, the number of the device that has it.
  std::map<int32_t, std::vector<uint32_t>> owners_;
  std::vector<uint64_t> choices_; ///< By device.
};

} // namespace moert

#endif // MOE_TOOLS_MOERT_EXPERTSHARES_H
