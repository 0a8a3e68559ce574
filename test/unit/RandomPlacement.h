//===- RandomPlacement.h - Models and machines by dice ----------*- C++ -*-===//
//
// What tests of placement compile: models of all architectures for machines
// that nobody built, and what the runtime says of their plans.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_UNIT_RANDOMPLACEMENT_H
#define MOE_TEST_UNIT_RANDOMPLACEMENT_H

#include "compiler/Driver/Driver.h"
#include "test/support/TempDir.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace moetest {

using Json = nlohmann::ordered_json;

/// The same on every machine.
class Dice {
public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  /// All orders of magnitude alike.
  double between(double least, double most);
  int upTo(int most) { return int(engine_() % unsigned(most + 1)); }

private:
  std::mt19937 engine_;
};

/// V3's shape with few layers, hundreds of gigabytes, or a model of another
/// architecture that has a megabyte or two.
struct RandomModel {
  std::string path;
  double bytes; ///< About.
  int64_t mostContext, ubatch;

  bool isSmall() const { return bytes < 1e8; }
};

class RandomModels {
public:
  explicit RandomModels(TempDir &folder);

  size_t smallOnes() const { return small_.size(); }
  RandomModel choose(Dice &dice);

private:
  TempDir &folder_;
  std::vector<std::string> small_;
};

/// Machines that are to a model what others are to larger ones.
struct Machine {
  Json devices = Json::array();
  int64_t vramLimit = 0, dramLimit = 0; ///< For less than a file can say.

  size_t gpus() const { return devices.size() - 1; }
  void enlargeGpus(double times);
};

Machine machineOf(Dice &dice, const RandomModel &model);

/// A request with nothing unusual about it.
moec::CompileRequest requestFor(Dice &dice, const RandomModel &model);

/// Compiles it; the report, or why it does not fit.
moert::StatusOr<moec::CompileReport>
place(TempDir &folder, moec::CompileRequest request, const Machine &machine);

/// Writes the plan, with kernels that are none.
moert::StatusOr<moec::CompileReport> writePlan(TempDir &folder,
                                               moec::CompileRequest request,
                                               const Machine &machine);

/// What the runtime has to say of a plan, or of each rung of a ladder, before
/// it asks for devices; and whether each device's bytes are in its budget.
moert::Status verdictOn(const std::string &plan);

/// The remark that begins with `what`, or "".
std::string remarkOf(const moec::CompileReport &report, const char *what);

/// Of a request of 1024 tokens and 256 generated ones: seconds predicted for
/// the placement, and for what others start from. Those that do not fit take
/// longer than all numbers.
struct Predicted {
  double own, onHost, classic;
};
/// None where the report tells of none.
std::optional<Predicted> predictedBy(const moec::CompileReport &report);

} // namespace moetest

#endif // MOE_TEST_UNIT_RANDOMPLACEMENT_H
