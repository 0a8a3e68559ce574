//===- LineReader.h - What a person types -----------------------*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_LINEREADER_H
#define MOE_TOOLS_MOERT_LINEREADER_H

#include <memory>
#include <optional>
#include <string>

namespace moert {

/// Reads messages from standard input: on a terminal with line editing and
/// history (libedit), elsewhere a line each and without a prompt. Lines that
/// are pasted are one message, where the terminal says what is pasted
/// (bracketed paste); so are lines between two lines of """ and lines with a
/// backslash at their end. Lines that were typed ahead are a message each.
class LineReader {
public:
  LineReader();
  ~LineReader();
  LineReader(const LineReader &) = delete;
  LineReader &operator=(const LineReader &) = delete;

  bool isTerminal() const { return isTerminal_; }

  enum class Event { Message, Interrupted, End };
  /// The next message in `message`.
  Event read(std::string &message);

private:
  struct Editor;
  Event readMessage(std::string &message);
  Event readLine(std::string &line, bool continues);

  bool isTerminal_;
  std::unique_ptr<Editor> editor_;
};

} // namespace moert

#endif // MOE_TOOLS_MOERT_LINEREADER_H
