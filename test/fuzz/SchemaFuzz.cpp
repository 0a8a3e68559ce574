// JSON schemas: whatever they are, they are refused or describe JSON texts of
// values that they accept. The first byte chooses a text; the others are the
// schema, in one of 64 of which a list, a text or a property's name is made
// long.
#include "runtime/constrain/JsonSchema.h"
#include "runtime/constrain/SchemaValidator.h"
#include "test/fuzz/Fuzz.h"
#include "test/fuzz/GrammarWalk.h"
#include "test/fuzz/JsonText.h"

using moefuzz::require;
using Json = nlohmann::ordered_json;

namespace {
/// Requests nest less deeply.
bool isDeep(std::string_view text) {
  constexpr int kMostNesting = 120;
  int depth = 0, most = 0;
  for (char c : text) {
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    most = std::max(most, depth);
  }
  return most > kMostNesting;
}

/// What can be made long: lists, texts, and objects whose members the schema
/// names: the names of others are keywords.
void addLong(Json &value, bool isNamed, std::vector<Json *> &to) {
  if (value.is_string() || (!value.empty() && (value.is_array() || isNamed)))
    to.push_back(&value);
  if (!value.is_structured())
    return;
  for (auto &[key, inner] : value.items()) {
    const bool isMap = key == "properties" || key == "patternProperties" ||
                       key == "$defs" || key == "dependentRequired" ||
                       key == "const";
    addLong(inner, !isNamed && isMap && inner.is_object(), to);
  }
}

/// Makes a list, a text, or the name of a property so long that code which
/// recurses once per element would exhaust the stack.
void lengthen(Json &schema, size_t choice) {
  constexpr size_t kMostEntries = 20'000, kMostBytes = 1 << 20;
  const std::string letters(200'000, 'x');
  std::vector<Json *> all;
  addLong(schema, /*isNamed=*/false, all);
  if (all.empty())
    return;
  Json &value = *all[choice % all.size()];
  if (value.is_string()) {
    value = value.get<std::string>() + letters;
    return;
  }
  if (value.is_object()) {
    value[value.begin().key() + letters] = Json(value.front());
    return;
  }
  const Json last = value.back();
  const size_t most = std::min(kMostEntries, kMostBytes / last.dump().size());
  while (value.size() < most)
    value.push_back(last);
}

/// Whether a number has more digits than a double keeps: the value that is read
/// is then not the one that is written.
bool hasLongNumber(std::string_view text) {
  constexpr int kMostDigits = 15;
  int digits = 0, most = 0;
  for (char c : text) {
    const bool isDigit = c >= '0' && c <= '9';
    digits = isDigit || c == '.' ? digits + isDigit : 0;
    most = std::max(most, digits);
  }
  return most > kMostDigits;
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
  constexpr size_t kOneOf = 64;
  if (const size_t choice = std::hash<std::string_view>()(input.rest());
      choice % kOneOf == 0)
    lengthen(schema, choice / kOneOf);
  auto grammar = moert::parseJsonSchema(schema, {.hasSpaces = (seed & 1) != 0});
  if (!grammar) {
    require(!grammar.status().message().empty(), "an error has a message");
    return 0;
  }
  const std::string text = moefuzz::walk(*grammar, seed);
  require(text.empty() || moefuzz::isJson(text), "a text is JSON", text);
  require(text.empty() || hasLongNumber(text) || isAccepted(schema, text),
          "a text is accepted", text);
  return 0;
}
