//===- Tokenizer.h - Text to token ids and back -----------------*- C++ -*-===//
//
// Encoding a text:
//   1. cut out control and user-defined tokens, leftmost and longest first;
//   2. cut the rest into words (PreTokenizer.h; the model llama has none and
//      puts a space in front instead); bytes that are not UTF-8 are one token
//      each;
//   3. merge each word's symbols into tokens (BpeModel.h).
// Text is taken as it is, without Unicode normalisation: a GGUF file names
// none, and decoding gives back exactly the bytes that were encoded wherever
// the vocabulary has a token for every byte (a U+2581 is a space, though, where
// the model spells spaces so).
//
// A Tokenizer does not change after creation; threads may share it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_TEXT_TOKENIZER_H
#define MOE_RUNTIME_TEXT_TOKENIZER_H

#include "runtime/base/Status.h"
#include "runtime/text/TokenizerSpec.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace moert {

struct EncodeOptions {
  std::optional<bool> addBos = {}; ///< The model's own default if not given.
  std::optional<bool> addEos = {}; ///< The same.
  /// Whether the text of a control token becomes that token. Off for text that
  /// must not be able to imitate structure.
  bool parseSpecial = true;
  /// Where given, a text that is left out of what is encoded, and that no
  /// special token spans: put inside a name, it makes the name ordinary text.
  std::string_view breaker = {};
  /// Off for what follows other text: no space in front.
  bool startsText = true;
};

class Tokenizer {
public:
  /// Fails with Unsupported for a model or pre-tokenizer that does not exist
  /// here (the message lists those that do) and with InvalidFile, naming the
  /// key, for data that contradicts itself.
  static StatusOr<Tokenizer> create(const TokenizerSpec &spec);

  Tokenizer(Tokenizer &&) noexcept;
  Tokenizer &operator=(Tokenizer &&) noexcept;
  ~Tokenizer();

  /// The token ids of `text`, any bytes up to 2 GiB.
  StatusOr<std::vector<int32_t>>
  encode(std::string_view text, const EncodeOptions &options = {}) const;

  /// `text` with `breaker` inside the name of each control token in it: encoded
  /// with that breaker, all of it is ordinary text.
  std::string breakNames(std::string_view text, std::string_view breaker) const;

  /// The words that merging works on, as step 2 leaves them; a special token is
  /// one of its own.
  StatusOr<std::vector<std::string>>
  pieces(std::string_view text, const EncodeOptions &options = {}) const;

  /// The bytes that `ids` stand for; perhaps not UTF-8. Control tokens and ids
  /// outside the vocabulary stand for nothing, and the space that encoding put
  /// in front is left out.
  std::string decode(std::span<const int32_t> ids) const;

  /// The bytes of one token, for a control token its name; empty for an id
  /// outside the vocabulary.
  std::string_view tokenBytes(int32_t id) const;

  bool isControl(int32_t id) const;
  /// Whether generation ends with this token: eos, eot, or a token with
  /// one of the names by which chat models end a turn.
  bool isEndOfGeneration(int32_t id) const;

  int32_t vocabularySize() const;
  std::optional<int32_t> bos() const;
  std::optional<int32_t> eos() const;

private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

} // namespace moert

#endif // MOE_RUNTIME_TEXT_TOKENIZER_H
