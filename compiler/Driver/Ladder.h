//===- Ladder.h - Several plans of a model in one file ----------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_LADDER_H
#define MOE_COMPILER_DRIVER_LADDER_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

struct CompileReport;
struct CompileRequest;
struct Given;

/// What one of the plans is for.
struct LadderRung {
  int64_t context = 0;   ///< Of a sequence.
  int64_t vramLimit = 0; ///< Of each GPU, to plan with; 0: as without it.

  bool operator==(const LadderRung &) const = default;
};

/// "4096,32768@16GiB": two rungs or more, contexts each with or without a limit
/// of GPUs' memory. In the order that a plan has them: by context, then memory.
/// Usage for anything else.
moert::StatusOr<std::vector<LadderRung>> parseLadder(std::string_view text);

/// The inverse.
std::string ladderWord(const std::vector<LadderRung> &ladder);

/// "rung 2 of 3, 32768 tokens with 16GiB of each GPU".
std::string rungName(const std::vector<LadderRung> &ladder, size_t index);

/// The ladder with another context in place of the rung's, which was too long:
/// longer rungs with the same limit go, and rungs that are there twice.
std::vector<LadderRung> shortened(std::vector<LadderRung> ladder, size_t index,
                                  int64_t context);

/// The ladder without the rung and longer ones with the same limit.
std::vector<LadderRung> withoutFrom(std::vector<LadderRung> ladder,
                                    size_t index);

/// `given` with the memory of GPUs that the rung may plan with.
moert::StatusOr<Given> givenOf(const LadderRung &rung, const Given &given);

/// Compiles and writes a ladder. Each rung has a plan before weights, which may
/// take hours, are packed for all of them.
moert::StatusOr<CompileReport> compileLadder(const CompileRequest &request,
                                             const Given &given);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_LADDER_H
