//===- Plan.h - A loaded and verified plan ----------------------*- C++ -*-===//
//
// A file holds one plan or a ladder of plans, of which one is active: the rung
// that choose() selects. Until then it is the last rung, which suits the
// machine that the ladder was compiled for (runtime/engine/RungChoice.h).
//
// Loading reads plan.fb into private memory and proves it sound in two steps:
// the flatbuffer verifier proves its structure; verifyTables() and
// verifyPhases() prove that every index, enum, size, offset and stride is in
// range. A loaded plan may still be for another machine: before anything runs,
// shapes are proved (runtime/prove/Prove.h) and kernels resolved
// (runtime/device/).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_PLAN_PLAN_H
#define MOE_RUNTIME_PLAN_PLAN_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

namespace fb {
struct Plan;
struct Tokenizer;
} // namespace fb

/// The note that users get who compile or read a plan with work for GPUs.
inline constexpr std::string_view kGpuPlanNote =
    "this plan needs a GPU and its driver on the machine that runs it";

class Plan {
public:
  /// Fails with Io (missing, or a directory), Usage (a GGUF model was given),
  /// InvalidFile (not a plan, or damaged) or WrongMachine (written for another
  /// schema version). Does not open weight files.
  static StatusOr<Plan> load(const std::string &path);

  /// Loads a plan that is only to be read; `path` may also be "-" (standard
  /// input) or a FIFO.
  static StatusOr<Plan> read(const std::string &path);

  /// Loads a plan from memory. `path` names it in messages, and its weight
  /// files are searched there.
  static StatusOr<Plan> fromBytes(std::span<const uint8_t> bytes,
                                  std::string path);

  /// Returns the plan or, of a ladder, the chosen rung. Everything reachable is
  /// verified; strings and vectors may be null.
  const fb::Plan &table() const;
  /// Returns the tokenizer, which all rungs share, or null.
  const fb::Tokenizer *tokenizer() const;

  /// Returns the number of rungs; 0 if the plan is not a ladder.
  uint32_t rungs() const;
  /// Returns rung `number`, from 1 on, or the plan itself if it is not a
  /// ladder.
  const fb::Plan &rung(uint32_t number) const;
  /// Returns the number of the chosen rung; 0 if the plan is not a ladder.
  uint32_t chosen() const { return chosen_; }
  /// Chooses a rung; `number` is from 1 to rungs().
  void choose(uint32_t number) { chosen_ = number; }
  /// Chooses the rung of a --rung option, 0 if it was not given. Fails with
  /// Usage if there is no such rung.
  Status chooseNamed(uint32_t number);
  /// Returns text such as "rung 2 of 3"; "" if the plan is not a ladder.
  std::string rungName() const;
  /// Returns a hash of the active plan, which marks data that fits only this
  /// plan.
  uint64_t fingerprint() const;

  const std::string &path() const { return path_; }
  std::span<const uint8_t> bytes() const { return bytes_; }

  /// Fails with WrongMachine, naming the command that recompiles the plan,
  /// unless this machine's CPU supports the ISA of each of the plan's CPUs.
  /// `modelPaths` say where the model is if not where the plan says.
  /// makeDevices() checks GPUs.
  Status checkMachine(std::span<const std::string> modelPaths = {}) const;

private:
  Plan(std::vector<uint8_t> bytes, std::string path)
      : bytes_(std::move(bytes)), path_(std::move(path)) {}

  std::vector<uint8_t> bytes_;
  std::string path_;
  uint32_t chosen_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_PLAN_PLAN_H
