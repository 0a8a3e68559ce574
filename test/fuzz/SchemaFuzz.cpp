// JSON schemas: whatever they are, they are refused or describe JSON texts of
// values that they accept. The first byte chooses a text, the others are the
// schema.
#include "runtime/constrain/JsonSchema.h"
#include "runtime/constrain/SchemaValidator.h"
#include "test/fuzz/Fuzz.h"
#include "test/fuzz/GrammarWalk.h"
#include "test/fuzz/JsonText.h"

using moefuzz::require;
using Json = nlohmann::ordered_json;

namespace {
/// Requests are nested less.
bool isDeep(std::string_view text) {
  constexpr int kMostNesting = 120;
  int depth = 0, most = 0;
  for (char c : text) {
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    most = std::max(most, depth);
  }
  return most > kMostNesting;
}

bool isAccepted(const Json &schema, const std::string &text) {
  auto source = moert::SchemaSource::read(schema);
  const auto value = nlohmann::json::parse(text, nullptr, false);
  return !source || value.is_discarded() ||
         moert::SchemaValidator(*source).accepts(source->root, value);
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  moefuzz::Input input(data, size);
  const uint8_t seed = input.byte();
  Json schema = Json::parse(input.rest(), nullptr, /*allow_exceptions=*/false);
  if (schema.is_discarded() || isDeep(input.rest()))
    return 0;
  auto grammar = moert::parseJsonSchema(schema, {.hasSpaces = (seed & 1) != 0});
  if (!grammar) {
    require(!grammar.status().message().empty(), "an error has a message");
    return 0;
  }
  const std::string text = moefuzz::walk(*grammar, seed);
  require(text.empty() || moefuzz::isJson(text), "a text is JSON", text);
  require(text.empty() || isAccepted(schema, text), "a text is accepted", text);
  return 0;
}
