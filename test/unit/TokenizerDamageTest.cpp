//===- TokenizerDamageTest.cpp - Damaged vocabularies ---------------------===//
//
// Seeded damage of real vocabularies gives an error, or a tokenizer whose ids
// are tokens and that decodes what it encodes; it never crashes. The asan
// preset runs this with sanitizers.
//
//===----------------------------------------------------------------------===//

#include "TokenizerTestSupport.h"
#include "test/support/TempDir.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <random>

using namespace moert;

namespace {


/// Words, digits, blanks, byte fallback, special tokens, and bytes that are no
/// text.
const std::string texts[] = {
    "",
    "In the beginning, God's 1234 heavens\n\n  and\tthe earth.",
    "été 漢字 😀 \xE2\x96\x81 \u2028 <|im_end|></s><unk><0x41>",
    std::string("\xFF\xC3 a\0b \xED\xA0\x80", 11),
    std::string(5000, 'a'),
    std::string(5000, ' ') + "x",
};

void use(const Tokenizer &tokenizer) {
  for (const std::string &text : texts)
    for (bool parseSpecial : {false, true}) {
      EncodeOptions options{.addBos = false,
                            .addEos = false,
                            .parseSpecial = parseSpecial,
                            .breaker = parseSpecial ? "e" : ""};
      StatusOr<std::vector<int32_t>> ids = tokenizer.encode(text, options);
      ASSERT_NE(ids.status().isOk(), !ids.status().message().empty());
      (void)tokenizer.pieces(text, options);
      (void)tokenizer.breakNames(text, "e");
      if (!ids)
        continue;
      for (int32_t id : *ids)
        ASSERT_TRUE(id >= 0 && id < tokenizer.vocabularySize()) << id;
      (void)tokenizer.decode(*ids);
    }
  for (int32_t id : {-1, 0, tokenizer.vocabularySize(), INT32_MAX}) {
    (void)tokenizer.tokenBytes(id);
    (void)tokenizer.isEndOfGeneration(id);
  }
}

class Damage {
public:
  explicit Damage(uint32_t seed) : random_(seed) {}

  void apply(TokenizerSpec &spec) {
    switch (below(8)) {
    case 0:
      any(spec.tokens) = text();
      break;
    case 1:
      any(spec.tokens) = any(spec.tokens);
      break;
    case 2:
      if (!spec.types.empty())
        any(spec.types) = int32_t(below(10)) - 2;
      break;
    case 3:
      if (!spec.scores.empty())
        any(spec.scores) = std::array{0.0f,      -0.0f, 1e38f, INFINITY,
                                      -INFINITY, NAN,   -1e9f}[below(7)];
      break;
    case 4:
      if (!spec.merges.empty())
        any(spec.merges) = below(2) ? any(spec.merges) : text();
      break;
    case 5:
      if (!spec.merges.empty())
        any(spec.merges) = any(spec.tokens) + " " + any(spec.tokens);
      break;
    case 6:
      spec.*std::array{&TokenizerSpec::bos, &TokenizerSpec::eos,
                       &TokenizerSpec::eot, &TokenizerSpec::unk,
                       &TokenizerSpec::pad}[below(5)] =
          std::array{-1, 0, 5, INT32_MAX, INT32_MIN}[below(5)];
      break;
    default:
      if (size_t kept = below(spec.tokens.size() + 1); below(4) == 0) {
        spec.tokens.resize(kept);
        if (below(2)) {
          spec.types.resize(std::min(kept, spec.types.size()));
          spec.scores.resize(std::min(kept, spec.scores.size()));
        }
      } else if (!spec.merges.empty()) {
        std::ranges::shuffle(spec.merges, random_);
      }
    }
  }

  size_t below(size_t most) { return most ? random_() % most : 0; }

private:
  template <typename T> T &any(std::vector<T> &of) {
    if (of.empty())
      of.resize(1);
    return of[below(of.size())];
  }
  std::string text() {
    const std::string some[] = {"",
                                " ",
                                "a",
                                "  ",
                                "\xFF",
                                "\xE2\x96\x81",
                                "a b",
                                "a ",
                                " a",
                                "<0xZZ>",
                                "<0x>",
                                "<0x41>",
                                "e",
                                "Ġ",
                                "\xC4",
                                std::string(3000, 'a'),
                                "\xE2\x96\x81\xE2\x96\x81",
                                std::string("\0", 1),
                                "<|im_end|>",
                                "\n"};
    return some[below(std::size(some))];
  }

  std::mt19937 random_;
};

class TokenizerDamage : public testing::TestWithParam<const char *> {
protected:
  std::string path() const {
    return vocabularies + std::string(GetParam()) + ".gguf";
  }
};

TEST_P(TokenizerDamage, OfASpec) {
  StatusOr<moec::GgufModel> model = moec::GgufModel::open(path());
  ASSERT_TRUE(model) << model.status().message();
  StatusOr<TokenizerSpec> whole = moec::tokenizerSpecFromGguf(*model);
  ASSERT_TRUE(whole) << whole.status().message();
  unsigned usable = 0, refused = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Damage damage(seed);
    TokenizerSpec spec = *whole;
    for (size_t n = damage.below(6) + 1; n > 0; --n)
      damage.apply(spec);
    // The vocabulary is used with each of the tokenizer models.
    spec.model = std::array{spec.model.c_str(), "gpt2", "llama",
                            "gemma4"}[damage.below(4)];
    StatusOr<Tokenizer> tokenizer = Tokenizer::create(spec);
    ++(tokenizer ? usable : refused);
    if (tokenizer)
      use(*tokenizer);
    else
      ASSERT_FALSE(tokenizer.status().message().empty());
  }
  EXPECT_GT(usable, 20u);
  EXPECT_GT(refused, 20u);
}

TEST_P(TokenizerDamage, OfAFile) {
  std::ifstream file(path(), std::ios::binary);
  std::string whole{std::istreambuf_iterator<char>(file), {}};
  moetest::TempDir folder;
  unsigned usable = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Damage damage(seed);
    std::string bytes = whole;
    for (size_t n = damage.below(4) + 1; n > 0; --n)
      bytes[damage.below(bytes.size())] = char(damage.below(256));
    std::string damaged = folder.file("damaged.gguf");
    std::ofstream(damaged, std::ios::binary) << bytes;
    StatusOr<moec::GgufModel> model = moec::GgufModel::open(damaged);
    if (!model)
      continue;
    StatusOr<TokenizerSpec> spec = moec::tokenizerSpecFromGguf(*model);
    if (!spec)
      continue;
    StatusOr<Tokenizer> tokenizer = Tokenizer::create(*spec);
    if (!tokenizer)
      continue;
    ++usable;
    use(*tokenizer);
  }
  EXPECT_GT(usable, 10u);
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerDamage,
                         testing::Values("bpe-llama-bpe", "bpe-kimi-k2",
                                         "spm-small"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

} // namespace
