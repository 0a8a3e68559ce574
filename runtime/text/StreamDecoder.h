//===- StreamDecoder.h - Decodes tokens incrementally -----------*- C++ -*-===//

#ifndef MOE_RUNTIME_TEXT_STREAMDECODER_H
#define MOE_RUNTIME_TEXT_STREAMDECODER_H

#include "runtime/base/Status.h"
#include "runtime/text/Tokenizer.h"

#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Enclose the name of a control token where text and control tokens are one
/// string: "\xFF</think>\xFE". No text has these bytes, as they are not UTF-8,
/// so that a name that was written as text cannot be taken for the token.
inline constexpr char kControlOpen = '\xFF', kControlClose = '\xFE';

/// The bytes of a control token in such a string.
std::string controlBytes(std::string_view name);
/// Whether a byte is one of the two.
inline bool isControlMark(char byte) {
  return byte == kControlOpen || byte == kControlClose;
}

/// Returns `text` without its control tokens.
std::string withoutControls(std::string_view text);
/// Returns `text` with the names of its control tokens as text.
std::string namedControls(std::string_view text);

/// Searches a stream of bytes for any of several strings. All are matched at
/// once by the Knuth-Morris-Pratt method, so the result does not depend on how
/// the stream is cut into pieces. A control token counts as its name.
class StopMatcher {
public:
  /// Fails with Usage for an empty string.
  static StatusOr<StopMatcher> create(const std::vector<std::string> &stops);

  /// Takes bytes and returns those that cannot be part of a stop string any
  /// more. The last bytes are held back while they may begin one. The stream
  /// ends at the first complete stop string, the longest if several end
  /// together; the stop string and all bytes after it are dropped.
  std::string push(std::string_view bytes);
  /// Ends the stream: returns the bytes that were held back.
  std::string finish();

  /// The index of the stop string that ended the stream, or -1.
  int stoppedBy() const { return stoppedBy_; }

private:
  struct Pattern {
    std::string text;
    /// For each prefix length, the longest proper prefix of the pattern that
    /// is also a suffix of that prefix.
    std::vector<size_t> borders;
    size_t matched = 0;

    explicit Pattern(std::string text);
    void advance(char byte);
  };

  std::vector<Pattern> patterns_;
  std::string held_; ///< As long as the longest matched prefix of a pattern.
  int stoppedBy_ = -1;
};

/// Converts a stream of bytes to valid UTF-8. An incomplete sequence is held
/// back; each maximal subpart of an invalid one becomes one U+FFFD. The
/// marks of control tokens are passed on if `keepsControls` is set.
class Utf8Stream {
public:
  explicit Utf8Stream(bool keepsControls = false)
      : keepsControls_(keepsControls) {}

  std::string push(std::string_view bytes);
  std::string finish();

private:
  bool isKept(char byte) const { return keepsControls_ && isControlMark(byte); }

  bool keepsControls_;
  std::string held_; ///< An incomplete sequence: at most 3 bytes.
};

/// Converts generated tokens to text for display: only whole characters, and no
/// part of a stop string. The concatenated results of push() and finish() do
/// not depend on the boundaries of tokens.
class StreamDecoder {
public:
  /// `tokenizer` must outlive the decoder. Fails with Usage for an empty stop
  /// string.
  static StatusOr<StreamDecoder>
  create(const Tokenizer &tokenizer, const std::vector<std::string> &stops = {},
         bool keepsControls = false);

  /// Returns the text that is certain after token `id`. Control tokens give no
  /// text, unless `keepsControls` is set: then each gives its name as
  /// controlBytes(). After a stop string, the text is empty.
  std::string push(int32_t id);
  /// Returns the rest of the text; an incomplete character becomes U+FFFD.
  std::string finish();

  /// Returns whether a stop string was found, so that generation should end.
  bool stopped() const { return stops_.stoppedBy() >= 0; }
  /// The index of that stop string, or -1.
  int stoppedBy() const { return stops_.stoppedBy(); }

private:
  StreamDecoder(const Tokenizer &tokenizer, StopMatcher stops,
                bool keepsControls)
      : tokenizer_(&tokenizer), stops_(std::move(stops)),
        keepsControls_(keepsControls), utf8_(keepsControls) {}

  const Tokenizer *tokenizer_;
  StopMatcher stops_;
  bool keepsControls_;
  Utf8Stream utf8_;
};

} // namespace moert

#endif // MOE_RUNTIME_TEXT_STREAMDECODER_H
