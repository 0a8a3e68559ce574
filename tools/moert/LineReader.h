//===- LineReader.h - What a person types -----------------------*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_LINEREADER_H
#define MOE_TOOLS_MOERT_LINEREADER_H

#include <memory>
#include <optional>
#include <string>

namespace moert {

/// Reads messages from standard input: on a terminal with line editing and
/// history (libedit), elsewhere a line each and without a prompt. Lines that
/// are typed ahead are messages of their own. Several lines that are pasted,
/// which the terminal marks, are one message, and so are lines between two
/// lines of """, or with a backslash at their end.
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
  Event readLine(std::string &line, bool continues);

  bool isTerminal_;
  std::unique_ptr<Editor> editor_;
};

} // namespace moert

#endif // MOE_TOOLS_MOERT_LINEREADER_H
