//===- PhaseKind.h - The phases that a plan may have ------------*- C++ -*-===//
//
// A phase is a program for one kind of step. PhaseKind.def lists them; code
// asks for their traits.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SCHEMA_PHASEKIND_H
#define MOE_RUNTIME_SCHEMA_PHASEKIND_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace moert {

enum class PhaseKind : uint8_t {
#define MOE_PHASE(kind, name, rows, traits) kind,
#include "runtime/schema/PhaseKind.def"
#undef MOE_PHASE
};

/// The kinds of rows in a step.
enum class PhaseRows : uint8_t {
  Next,       ///< The next token, or the next few, of one sequence.
  NextOfEach, ///< The next token of each of several sequences.
  Prompt,     ///< Many tokens of one sequence's prompt.
  Any,        ///< Any tokens that other phases processed.
};

/// Traits of a phase.
enum : uint8_t {
  kReadsTokens = 1, ///< The input is token ids.
  kReadsHidden = 2, ///< The input, or a second one, is hidden rows.
  kIsHead = 4,  ///< The phase ends with logits; others end with hidden rows.
  kStreams = 8, ///< In each step, experts are copied to a GPU.
  /// Every generated token needs a step of it, so every plan has it.
  kOfEveryToken = 16,
};

struct PhaseInfo {
  PhaseKind kind;
  std::string_view name;
  PhaseRows rows;
  unsigned traits;
};

/// Indexed by kind.
inline constexpr PhaseInfo kPhases[] = {
#define MOE_PHASE(kind, name, rows, traits)                                    \
  {PhaseKind::kind, name, PhaseRows::rows, traits},
#include "runtime/schema/PhaseKind.def"
#undef MOE_PHASE
};

constexpr std::string_view nameOf(PhaseKind kind) {
  return kPhases[size_t(kind)].name;
}

/// Returns nothing for a name that no phase has.
constexpr std::optional<PhaseKind> phaseKindOf(std::string_view name) {
  for (const PhaseInfo &phase : kPhases)
    if (phase.name == name)
      return phase.kind;
  return std::nullopt;
}

constexpr PhaseRows rowsOf(PhaseKind kind) {
  return kPhases[size_t(kind)].rows;
}

/// Returns whether the phase has all of these traits.
constexpr bool has(PhaseKind kind, unsigned traits) {
  return (kPhases[size_t(kind)].traits & traits) == traits;
}

/// Returns whether the phase's steps process tokens of prompts.
constexpr bool isPrefill(PhaseKind kind) {
  return rowsOf(kind) == PhaseRows::Prompt;
}

/// Returns whether each step has tokens of several sequences.
constexpr bool isBatch(PhaseKind kind) {
  return rowsOf(kind) == PhaseRows::NextOfEach;
}

/// Returns whether the phase's steps extend sequences by one or a few tokens
/// each.
constexpr bool isDecode(PhaseKind kind) {
  return rowsOf(kind) == PhaseRows::Next || isBatch(kind);
}

} // namespace moert

#endif // MOE_RUNTIME_SCHEMA_PHASEKIND_H
