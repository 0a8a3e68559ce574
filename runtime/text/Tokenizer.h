//===- Tokenizer.h - Converts text to token ids and back --------*- C++ -*-===//
//
// Encoding a text:
//   1. cut out control and user-defined tokens, leftmost and longest first;
//   2. cut the rest into words (PreTokenizer.h; model llama has no words and
//      puts a space in front instead, and drops extra spaces if the file says
//      so); each byte that is not UTF-8 is a token;
//   3. merge each word's symbols into tokens (BpeModel.h).
// Text is not normalised otherwise, because GGUF files specify no
// normalisation. Decoding returns exactly the encoded bytes if the vocabulary
// has a token for every byte and no space was dropped, except that U+2581
// becomes a space in models that write spaces that way.
//
// A Tokenizer is immutable; threads may share it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_TEXT_TOKENIZER_H
#define MOE_RUNTIME_TEXT_TOKENIZER_H

#include "runtime/base/Deadline.h"
#include "runtime/base/Status.h"
#include "runtime/text/TokenizerSpec.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace moert {

/// U+FDD0, a noncharacter that Unicode reserves for internal use, so that no
/// text contains it. For EncodeOptions::breaker.
inline constexpr std::string_view kNameBreaker = "\xEF\xB7\x90";

struct EncodeOptions {
  std::optional<bool> addBos = {}; ///< By default the model decides.
  std::optional<bool> addEos = {}; ///< By default the model decides.
  /// Whether the text of a control token becomes that token. Off for text that
  /// must not be able to imitate control tokens.
  bool parseSpecial = true;
  /// If not empty, occurrences of this text are removed, but no special token
  /// is recognised across them: placed inside a token's name, it makes the name
  /// ordinary text.
  std::string_view breaker = {};
  /// Off for text that continues other text: no space is put in front.
  bool startsText = true;
  /// Encoding may end after so many tokens, if only the beginning matters.
  size_t most = SIZE_MAX;
  /// Deadline after which encoding fails.
  Deadline deadline = {};
};

class Tokenizer {
public:
  /// Fails with Unsupported for an unknown model or pre-tokenizer (the error
  /// lists the known ones) and with InvalidFile, naming the key, for
  /// inconsistent data.
  static StatusOr<Tokenizer> create(const TokenizerSpec &spec);

  Tokenizer(Tokenizer &&) noexcept;
  Tokenizer &operator=(Tokenizer &&) noexcept;
  ~Tokenizer();

  /// Returns the token ids of `text`: any bytes, up to 2 GiB.
  StatusOr<std::vector<int32_t>>
  encode(std::string_view text, const EncodeOptions &options = {}) const;

  /// A number of tokens that `text` cannot have less than, whatever of its
  /// white space is dropped. Takes much less time than encode().
  size_t leastTokens(std::string_view text) const;

  /// Inserts `breaker` into the name of each control token in `text`. Encoded
  /// with that breaker, all of the text is then ordinary text.
  std::string breakNames(std::string_view text, std::string_view breaker) const;

  /// Returns the words that merging works on, the result of step 2; each
  /// special token is a word.
  StatusOr<std::vector<std::string>>
  pieces(std::string_view text, const EncodeOptions &options = {}) const;

  /// Returns the bytes of `ids`, which may not be UTF-8. Control tokens and ids
  /// outside the vocabulary give no bytes, and the space that encoding puts in
  /// front is removed.
  std::string decode(std::span<const int32_t> ids) const;

  /// Returns the bytes of one token, or the name of a control token; empty for
  /// an id outside the vocabulary.
  std::string_view tokenBytes(int32_t id) const;

  bool isControl(int32_t id) const;
  /// Returns whether generation ends with this token: eos, eot, or a token with
  /// a name that chat models use for the end of a turn, or code models between
  /// files.
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
