//===- ExpertShares.h - Choices of experts by device ------------*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_EXPERTSHARES_H
#define MOE_TOOLS_MOERT_EXPERTSHARES_H

#include "runtime/engine/RouterWatch.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace moert {

/// Counts choices by device in layers whose experts are on several devices.
class ExpertShares {
public:
  explicit ExpertShares(const Plan &plan);

  /// Returns whether there are such layers.
  bool hasSplits() const { return !owners_.empty(); }

  void add(const RouterChoice &choice);

  struct Share {
    std::string device;
    double expected; ///< Fraction of these experts that the device has.
    double seen;     ///< Fraction of all choices so far.
  };
  /// Returns the devices that have any of these experts, in the plan's order.
  std::vector<Share> shares() const;

private:
  std::vector<std::string> devices_;
  /// For each layer: for each expert, the number of its device.
  std::map<int32_t, std::vector<uint32_t>> owners_;
  std::vector<uint64_t> choices_; ///< One for each device.
};

} // namespace moert

#endif // MOE_TOOLS_MOERT_EXPERTSHARES_H
