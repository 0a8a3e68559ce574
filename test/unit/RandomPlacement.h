//===- RandomPlacement.h - Random models and machines -----------*- C++ -*-===//
//
// Inputs for tests of placement: models of all architectures, random machines,
// and the runtime's verdict on their plans.
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

/// Random numbers that are the same on every machine.
class Dice {
public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  /// Returns a number with equal probability for all orders of magnitude.
  double between(double least, double most);
  int upTo(int most) { return int(engine_() % unsigned(most + 1)); }

private:
  std::mt19937 engine_;
};

/// A model in the shape of V3 with few layers and hundreds of gigabytes, or a
/// model of another architecture with one or two megabytes.
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
  const std::vector<std::string> &small() const { return small_; }
  RandomModel choose(Dice &dice);

private:
  TempDir &folder_;
  std::vector<std::string> small_;
};

/// Returns a machine whose memory is in proportion to the model.
struct Machine {
  Json devices = Json::array();
  int64_t vramLimit = 0, dramLimit = 0; ///< For less than a file can say.

  size_t gpus() const { return devices.size() - 1; }
  void enlargeGpus(double times);
  void enlargeHost(double times);
};

Machine machineOf(Dice &dice, const RandomModel &model);
/// Returns a machine with a GPU and a CPU that share a memory.
Machine machineOfOneMemory(Dice &dice, const RandomModel &model);

/// Returns a request with usual options.
moec::CompileRequest requestFor(Dice &dice, const RandomModel &model);

/// Compiles the request; returns the report, or why it does not fit.
moert::StatusOr<moec::CompileReport>
place(TempDir &folder, moec::CompileRequest request, const Machine &machine);

/// Writes the plan, with placeholders for kernels.
moert::StatusOr<moec::CompileReport> writePlan(TempDir &folder,
                                               moec::CompileRequest request,
                                               const Machine &machine);

/// Verifies a plan, or each rung of a ladder, as the runtime does before it
/// opens devices, and checks that each device is within its budget.
moert::Status alternativeText(const std::string &plan);

/// Returns the remark that begins with `what`, or "".
std::string remarkOf(const moec::CompileReport &report, const char *what);

/// What the remarks of a report say of a phase's step: the seconds to which the
/// plan adds up, and those that placement predicted.
struct Belief {
  std::string phase;
  double plan, placement;
};
std::vector<Belief> beliefsOf(const moec::CompileReport &report);

/// How far placement's predictions may be from what the plan adds up to.
constexpr double kBelief = 0.01;

struct BeliefCount {
  unsigned compared = 0, beyond = 0; ///< `beyond`: by more than kBelief.
};

/// Adds a failure where what placement predicted differs by more than `most`
/// from what the plan adds up to. Where long steps stream experts, what is left
/// of prefill has another length than what was predicted.
BeliefCount expectBeliefs(const moec::CompileReport &report,
                          double most = kBelief);

/// Predicted seconds of a request with mixed prompts and 256 generated tokens,
/// for the placement and for two simple placements. Placements that do
/// not fit have infinite seconds.
struct Predicted {
  double own, onHost, classic;
};
/// Returns none if the report has no predictions.
std::optional<Predicted> predictedBy(const moec::CompileReport &report);

} // namespace moetest

#endif // MOE_TEST_UNIT_RANDOMPLACEMENT_H
