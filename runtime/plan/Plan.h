//===- Plan.h - A loaded and verified plan ----------------------*- C++ -*-===//
//
// A file holds one plan, or a ladder of them, of which one is looked at and
// run: the rung that choose() names, until then the last, which is what the
// machine that the ladder was compiled for takes (runtime/engine/Ladder.h).
//
// Loading reads plan.fb into private memory and proves it sound in two steps:
// the flatbuffer verifier proves structure, verifyTables() and verifyPhases()
// prove that every index, enum, size, offset and stride is in range. A loaded
// plan may still be for another machine; shapes are proved
// (runtime/prove/Prove.h) and kernels resolved (runtime/device/) before
// anything runs.
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

/// For people who make or read a plan whose GPUs have something to do.
inline constexpr std::string_view kGpuPlanNote =
    "this plan needs a GPU and its driver where it is run";

class Plan {
public:
  /// Fails with Io (missing, a directory), Usage (a GGUF model was given),
  /// InvalidFile (not a plan, or a damaged one) or WrongMachine (written for
  /// another schema version). Weight files are not touched.
  static StatusOr<Plan> load(const std::string &path);

  /// The same for who only looks at a plan: from "-", standard input, and FIFOs
  /// too.
  static StatusOr<Plan> read(const std::string &path);

  /// The same for a plan in memory; `path` names it in messages and is where
  /// its weight files are looked for.
  static StatusOr<Plan> fromBytes(std::span<const uint8_t> bytes,
                                  std::string path);

  /// The plan, of a ladder the chosen rung. Everything reachable is verified;
  /// strings and vectors may be null.
  const fb::Plan &table() const;
  /// Of all rungs; null where there is none.
  const fb::Tokenizer *tokenizer() const;

  /// How many rungs a ladder has; 0: this is none.
  uint32_t rungs() const;
  /// Rung `number`, from 1 on; of what is no ladder, the plan.
  const fb::Plan &rung(uint32_t number) const;
  /// The number of the chosen one; 0: this is no ladder.
  uint32_t chosen() const { return chosen_; }
  /// `number` is from 1 to rungs().
  void choose(uint32_t number) { chosen_ = number; }
  /// What --rung of a command that only looks at plans asks for, 0 where it is
  /// not given. Usage for a rung that there is not.
  Status chooseNamed(uint32_t number);
  /// "rung 2 of 3"; "" of what is no ladder.
  std::string rungName() const;
  /// Of the plan that runs, for what belongs to it alone.
  uint64_t fingerprint() const;

  const std::string &path() const { return path_; }
  std::span<const uint8_t> bytes() const { return bytes_; }

  /// WrongMachine unless this machine's CPU has the ISA of every CPU of the
  /// plan, with the command that recompiles it; `modelPaths` say where the
  /// model is, if not where the plan says. Of GPUs, makeDevices() finds out.
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
