// Grammars in GBNF and regular expressions, by the first byte.
#include "runtime/constrain/Gbnf.h"
#include "runtime/constrain/Regex.h"
#include "test/fuzz/Fuzz.h"
#include "test/fuzz/GrammarWalk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  moefuzz::Input input(data, size);
  const uint8_t choice = input.byte();
  auto grammar = (choice & 1) != 0 ? moert::parseRegex(input.rest())
                                   : moert::parseGbnf(input.rest());
  if (grammar)
    moefuzz::walk(*grammar, choice);
  else
    moefuzz::require(!grammar.status().message().empty(),
                     "an error has a message");
  return 0;
}
