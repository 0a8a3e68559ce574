//===- GrammarWalk.h - Texts that a grammar allows --------------*- C++ -*-===//

#ifndef MOE_TEST_FUZZ_GRAMMARWALK_H
#define MOE_TEST_FUZZ_GRAMMARWALK_H

#include "runtime/constrain/Grammar.h"

#include <string>

namespace moefuzz {

/// Compiles a grammar and follows a text through it: tokens of one and of a few
/// bytes, of those that are allowed one by `seed`. Ends the process if a token
/// that the mask has is refused, or one that it lacks is accepted. Returns the
/// text if it became complete, else "".
std::string walk(const moert::Grammar &grammar, uint32_t seed);

} // namespace moefuzz

#endif // MOE_TEST_FUZZ_GRAMMARWALK_H
