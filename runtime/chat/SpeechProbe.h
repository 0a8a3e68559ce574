//===- SpeechProbe.h - Learns how a model speaks ----------------*- C++ -*-===//
//
// A chat template shows how its model speaks by what it writes: it is given a
// reasoning, an answer, and calls of tools with known names and values, and
// what stands around these in its text are the model's marks. Nothing is
// concluded from a template's or a model's name. What a template does not show
// (some drop the reasoning of earlier turns) comes from what its prompts end
// with, and from pairs of special tokens in the vocabulary.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CHAT_SPEECHPROBE_H
#define MOE_RUNTIME_CHAT_SPEECHPROBE_H

#include "runtime/chat/Speech.h"
#include "runtime/chat/TemplateHabits.h"

namespace moert {

/// How the model of this template and vocabulary speaks. If a template refuses
/// a probe, or leaves its text out, other probes are tried; what none of them
/// shows stays empty.
Speech learnSpeech(const RenderVariables &render, const Tokenizer &tokenizer);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_SPEECHPROBE_H
