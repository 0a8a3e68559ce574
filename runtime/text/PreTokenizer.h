//===- PreTokenizer.h - Cutting text into words -----------------*- C++ -*-===//
//
// Byte-level BPE never merges across words. What a word is, each family of
// tokenizers says with regular expressions; PreTokenizers.def lists them.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_TEXT_PRETOKENIZER_H
#define MOE_RUNTIME_TEXT_PRETOKENIZER_H

#include "runtime/base/Status.h"
#include "runtime/text/TokenizerSpec.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Which words that are a token as a whole are that token, whatever the merges
/// say.
enum class WholeWords : uint8_t { None, All, LineEnds };

/// Whether text starts with the begin-of-text token: where the file does not
/// say (Off, On), or whatever it says (Never).
enum class BosDefault : uint8_t { Off, On, Never };

class PreTokenizer {
public:
  /// `name` is a value of tokenizer.ggml.pre. One that PreTokenizers.def does
  /// not list is Unsupported; the message has meantName().
  static StatusOr<PreTokenizer> create(std::string_view name);
  static std::vector<std::string_view> supportedNames();
  /// "known are default, falcon, ...", for one who may choose.
  static std::string knownNames();
  /// The name of the table that `name` is a misspelling of, if it is one: at
  /// most two letters differ. Another digit is another tokenizer's version.
  static std::optional<std::string_view> meantName(std::string_view name);

  PreTokenizer(PreTokenizer &&) noexcept;
  PreTokenizer &operator=(PreTokenizer &&) noexcept;
  ~PreTokenizer();

  /// Whether `word`, if it is a token as a whole, is that token.
  bool takesWhole(std::string_view word) const {
    return wholeWords_ == WholeWords::All ||
           (wholeWords_ == WholeWords::LineEnds && word.front() == '\n');
  }
  BosDefault bosDefault() const { return bos_; }
  Alphabet alphabet() const { return alphabet_; }

  /// What matching needs to write to. Not shared between threads; reuse it
  /// from call to call, for it owns the matcher's stack.
  class Scratch {
  public:
    Scratch();
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;
    ~Scratch();

  private:
    friend class PreTokenizer;
    struct State;
    std::unique_ptr<State> state_;
  };

  /// Appends the end offset in `text` of each word, in order; the words cover
  /// `text`. `text` must be valid UTF-8 of less than 4 GiB. Time is linear in
  /// its length and the call stack flat for every expression in the table; an
  /// expression that runs away all the same ends in Internal.
  Status split(std::string_view text, Scratch &scratch,
               std::vector<uint32_t> &ends) const;

private:
  struct Pass;
  PreTokenizer(Alphabet alphabet, WholeWords wholeWords, BosDefault bos);

  Status splitPiece(size_t pass, std::string_view text, uint32_t begin,
                    uint32_t end, Scratch &scratch,
                    std::vector<uint32_t> &ends) const;

  std::vector<Pass> passes_;
  Alphabet alphabet_;
  WholeWords wholeWords_;
  BosDefault bos_;
};

} // namespace moert

#endif // MOE_RUNTIME_TEXT_PRETOKENIZER_H
