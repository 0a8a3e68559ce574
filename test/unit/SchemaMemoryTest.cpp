//===- SchemaMemoryTest.cpp - How much memory schemas take ----------------===//

#include "runtime/constrain/JsonSchema.h"
#include "runtime/constrain/Matcher.h"

#include <atomic>
#include <cstdlib>
#include <gtest/gtest.h>
#include <malloc.h>
#include <new>

// Sanitizers have an allocator of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

static std::atomic<size_t> used, peak;

void *operator new(size_t size) {
  void *made = std::malloc(size);
  if (!made)
    throw std::bad_alloc();
  const size_t now = used += malloc_usable_size(made);
  if (now > peak)
    peak = now;
  return made;
}
void operator delete(void *made) noexcept {
  used -= malloc_usable_size(made);
  std::free(made);
}
void operator delete(void *made, size_t) noexcept { operator delete(made); }

using namespace moert;
using Json = nlohmann::ordered_json;

namespace {
constexpr size_t kMiB = size_t(1) << 20;

/// The most bytes that a schema takes beside itself until the first mask has
/// been made.
size_t peakOf(const Json &schema) {
  static const std::vector<std::string_view> tokens = {"{", "\"", "a", "[", ""};
  const auto trie =
      std::make_shared<const TokenTrie>(tokens, std::vector<int32_t>{4});
  const size_t before = used;
  peak = before;
  auto grammar = parseJsonSchema(schema);
  EXPECT_TRUE(grammar.isOk());
  auto automaton = Automaton::compile(*grammar);
  EXPECT_TRUE(automaton.isOk());
  Matcher matcher(std::make_shared<const Automaton>(*std::move(automaton)),
                  trie);
  EXPECT_TRUE(matcher.allowed().isOk());
  return peak - before;
}

// A list of texts takes its bytes, not states; and what is around it has no
// copies of it, however deep it is.
TEST(SchemaMemory, IsOfTheSizeOfTheSchema) {
  Json texts = Json::array(), names = Json::array(), consts = Json::array(),
       properties = Json::object();
  for (uint32_t i = 0; i < 100'000; ++i)
    texts.push_back(std::to_string(i * 2654435761u) + "-k");
  for (int i = 0; i < 10'000; ++i) {
    names.push_back("n" + std::to_string(i));
    properties["n" + std::to_string(i)] = {{"type", "string"}};
  }
  for (int i = 0; i < 4'000; ++i)
    consts.push_back({{"const", "c" + std::to_string(i)}});
  Json deep = {{"enum", texts}};
  for (int i = 0; i < 8; ++i)
    deep = {{"type", "object"}, {"properties", {{"a", deep}}}};
  EXPECT_LT(peakOf({{"enum", texts}}), 20 * kMiB);
  EXPECT_LT(peakOf(deep), 20 * kMiB);
  EXPECT_LT(peakOf({{"required", names}}), 10 * kMiB);
  EXPECT_LT(peakOf({{"type", "object"}, {"properties", properties}}),
            12 * kMiB);
  EXPECT_LT(peakOf({{"anyOf", consts}}), 5 * kMiB);
}
} // namespace

#endif
