// JSON schemas: whatever they are, they are refused or describe JSON texts. The
// first byte chooses a text, the others are the schema.
#include "runtime/constrain/JsonSchema.h"
#include "test/fuzz/Fuzz.h"
#include "test/fuzz/GrammarWalk.h"
#include "test/fuzz/JsonText.h"

using moefuzz::require;
using Json = nlohmann::ordered_json;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  moefuzz::Input input(data, size);
  const uint8_t seed = input.byte();
  Json schema = Json::parse(input.rest(), nullptr, /*allow_exceptions=*/false);
  // Requests are nested less.
  if (schema.is_discarded() || size > 20000)
    return 0;
  auto grammar = moert::parseJsonSchema(schema, {.hasSpaces = (seed & 1) != 0});
  if (!grammar) {
    require(!grammar.status().message().empty(), "an error has a message");
    return 0;
  }
  const std::string text = moefuzz::walk(*grammar, seed);
  require(text.empty() || moefuzz::isJson(text), "a text is JSON", text);
  return 0;
}
