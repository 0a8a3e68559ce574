//===- Plan.h - A loaded and verified plan ----------------------*- C++ -*-===//
//
// Loading reads plan.fb into private memory and proves it sound in two steps:
// the flatbuffer verifier proves structure, verifyTables() and verifyPhases()
// prove that every index, enum, size, offset and stride is in range. A loaded
// plan may still be for another machine; shapes are proved (runtime/Prove.h)
// and kernels resolved (runtime/device/) before anything runs.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_PLAN_H
#define MOE_RUNTIME_PLAN_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

namespace fb {
struct Plan;
} // namespace fb

/// For people who make or read a plan that puts ops on a GPU.
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

  /// Everything reachable is verified; strings and vectors may be null.
  const fb::Plan &table() const;
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
};

} // namespace moert

#endif // MOE_RUNTIME_PLAN_H
