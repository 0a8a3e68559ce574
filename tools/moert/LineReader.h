//===- LineReader.h - Reads typed and pasted messages -----------*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_LINEREADER_H
#define MOE_TOOLS_MOERT_LINEREADER_H

#include <memory>
#include <optional>
#include <string>

namespace moert {

/// Reads messages from standard input: on a terminal with line editing and
/// history (libedit), otherwise line by line and without a prompt. Lines that
/// are typed ahead are separate messages. Several lines are one message if they
/// are pasted (the terminal marks this), enclosed in two lines of """, or
/// joined by backslashes at the ends of lines.
class LineReader {
public:
  LineReader();
  ~LineReader();
  LineReader(const LineReader &) = delete;
  LineReader &operator=(const LineReader &) = delete;

  bool isTerminal() const { return isTerminal_; }

  enum class Event { Message, Interrupted, End };
  /// Reads the next message into `message`.
  Event read(std::string &message);

private:
  struct Editor;
  Event readLine(std::string &line, bool continues);

  bool isTerminal_;
  std::unique_ptr<Editor> editor_;
};

} // namespace moert

#endif // MOE_TOOLS_MOERT_LINEREADER_H
