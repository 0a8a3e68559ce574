//===- LadderCompilation.h - Several plans in one file ----------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_LADDERCOMPILATION_H
#define MOE_COMPILER_DRIVER_LADDERCOMPILATION_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

struct CompileReport;
struct CompileRequest;
struct CompileInputs;

/// The context and GPU memory that one of the plans is made for.
struct LadderRung {
  int64_t context = 0;   ///< Tokens per sequence.
  int64_t vramLimit = 0; ///< Bytes of each GPU to use; 0: no limit.
  /// Bytes of the KV cache of all sequences; 0: as --kv-budget says.
  int64_t kvBudget = 0;
  /// Whether --ladder auto stands for it, and in place of all rungs while their
  /// contexts are unknown.
  bool isAuto = false;

  bool operator==(const LadderRung &) const = default;
};

/// Parses a ladder such as "4096,32768@16GiB": two or more contexts, each with
/// an optional limit of GPU memory. The result is sorted by context, then by
/// memory, like the rungs of a plan. "auto" gives one rung, which
/// ladderThatFits() replaces. Fails with Usage for an invalid text.
moert::StatusOr<std::vector<LadderRung>> parseLadder(std::string_view text);

/// Returns the contexts from 4096 tokens, each twice the one before, to that
/// which the model was trained for, as far as they fit the target. Where a
/// context for each sequence does not fit, all sequences share one. Empty if
/// not even the first one fits.
moert::StatusOr<std::vector<LadderRung>>
ladderThatFits(const CompileRequest &request, const CompileInputs &given);

/// Returns the ladder in the syntax of parseLadder().
std::string ladderWord(const std::vector<LadderRung> &ladder);

/// Returns a name such as "rung 2 of 3, 32768 tokens with 16GiB of each GPU".
std::string rungName(const std::vector<LadderRung> &ladder, size_t index);

/// Returns the ladder with a shorter context for a rung whose context was too
/// long. Longer rungs with the same limit and duplicates are removed.
std::vector<LadderRung> shortened(std::vector<LadderRung> ladder, size_t index,
                                  int64_t context);

/// Returns the ladder without the rung and without longer ones with the same
/// limit.
std::vector<LadderRung> withoutRungsFrom(std::vector<LadderRung> ladder,
                                         size_t index);

/// Returns `given` with the GPU memory that the rung may use.
moert::StatusOr<CompileInputs> inputsOfRung(const LadderRung &rung,
                                            const CompileInputs &given);

/// Compiles and writes a ladder. All rungs are compiled before weights are
/// packed for all of them, which may take hours. A trial writes nothing, and
/// only fails or does not.
moert::StatusOr<CompileReport> compileLadder(const CompileRequest &request,
                                             const CompileInputs &given,
                                             bool isTrial = false);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_LADDERCOMPILATION_H
