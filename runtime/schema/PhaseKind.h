//===- PhaseKind.h - The phases that a plan may have ------------*- C++ -*-===//
//
// A phase is a program for one kind of step. Plans, the `moe` dialect and
// printed tables name it by the strings below; code compares PhaseKind.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SCHEMA_PHASEKIND_H
#define MOE_RUNTIME_SCHEMA_PHASEKIND_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace moert {

enum class PhaseKind : uint8_t {
  Decode,          ///< The next token, or the next few, of one sequence.
  Prefill,         ///< Many tokens of one sequence's prompt.
  Logits,          ///< Hidden rows of any tokens to logits.
  Batch,           ///< The next token of each of several sequences.
  StreamedPrefill, ///< As Prefill, with experts copied to a GPU in each step.
  Draft, ///< Tokens and the hidden rows before them to rows for DraftLogits.
  DraftLogits, ///< Rows of Draft to logits of the tokens after next.
};

/// Indexed by kind.
inline constexpr std::array<std::string_view, 7> kPhaseNames = {
    "decode",           "prefill", "logits",      "batch",
    "streamed_prefill", "draft",   "draft_logits"};

constexpr std::string_view nameOf(PhaseKind kind) {
  return kPhaseNames[size_t(kind)];
}

/// Returns nothing for a name that no phase has.
constexpr std::optional<PhaseKind> phaseKindOf(std::string_view name) {
  for (size_t i = 0; i < kPhaseNames.size(); ++i)
    if (kPhaseNames[i] == name)
      return PhaseKind(i);
  return std::nullopt;
}

/// Returns whether the phase's steps process tokens of prompts.
constexpr bool isPrefill(PhaseKind kind) {
  return kind == PhaseKind::Prefill || kind == PhaseKind::StreamedPrefill;
}

/// Returns whether the phase's steps extend sequences by one or a few tokens
/// each.
constexpr bool isDecode(PhaseKind kind) {
  return kind == PhaseKind::Decode || kind == PhaseKind::Batch;
}

/// Returns whether the phase maps hidden rows of any tokens to logits.
constexpr bool isHead(PhaseKind kind) {
  return kind == PhaseKind::Logits || kind == PhaseKind::DraftLogits;
}

} // namespace moert

#endif // MOE_RUNTIME_SCHEMA_PHASEKIND_H
