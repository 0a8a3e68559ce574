#include "tools/moert/LineReader.h"

#include "tools/common/Interrupt.h"

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <histedit.h>
#include <poll.h>
#include <unistd.h>

namespace moert {

struct LineReader::Editor {
  EditLine *line = nullptr;
  History *history = nullptr;
  bool continues = false;

  ~Editor() {
    if (line)
      el_end(line);
    if (history)
      history_end(history);
  }
};

LineReader::LineReader() : isTerminal_(::isatty(STDIN_FILENO)) {
  if (!isTerminal_)
    return;
  // Characters of more than one byte move the cursor as one.
  std::setlocale(LC_CTYPE, "");
  editor_ = std::make_unique<Editor>();
  editor_->line = el_init("moert", stdin, stdout, stderr);
  editor_->history = history_init();
  if (!editor_->line || !editor_->history) {
    editor_.reset(); // Then lines are read as they come.
    return;
  }
  HistEvent event;
  history(editor_->history, &event, H_SETSIZE, 1000);
  el_set(editor_->line, EL_CLIENTDATA, editor_.get());
  el_set(
      editor_->line, EL_PROMPT, +[](EditLine *line) {
        Editor *editor = nullptr;
        el_get(line, EL_CLIENTDATA, &editor);
        static char first[] = "> ", next[] = "| ";
        return editor->continues ? next : first;
      });
  el_set(editor_->line, EL_EDITOR, "emacs");
  el_set(editor_->line, EL_HIST, history, editor_->history);
  el_set(editor_->line, EL_SIGNAL, 0);
}

LineReader::~LineReader() = default;

/// Whether a key is waiting: nobody types the next line that fast.
bool LineReader::isMoreTyped() const {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 30) > 0 && (input.revents & POLLIN);
}

LineReader::Event LineReader::readLine(std::string &line, bool continues) {
  line.clear();
  if (editor_) {
    editor_->continues = continues;
    int count = 0;
    errno = 0;
    const char *text = el_gets(editor_->line, &count);
    if (moetool::takeInterrupt())
      return Event::Interrupted;
    if (!text || count <= 0)
      return errno == EINTR ? Event::Interrupted : Event::End;
    line.assign(text, static_cast<size_t>(count));
  } else {
    int c = 0;
    while ((c = std::getchar()) != EOF) {
      line += static_cast<char>(c);
      if (c == '\n')
        break;
    }
    if (moetool::takeInterrupt())
      return Event::Interrupted;
    if (line.empty())
      return Event::End;
  }
  if (line.ends_with('\n'))
    line.pop_back();
  return Event::Message;
}

LineReader::Event LineReader::read(std::string &message) {
  message.clear();
  std::string line;
  Event event = readLine(line, false);
  if (event != Event::Message)
    return event;
  bool isBlock = line == "\"\"\"";
  if (!isBlock)
    message = line;
  while (true) {
    bool isJoined = !isBlock && message.ends_with('\\');
    bool isPasted = !isBlock && isTerminal_ && isMoreTyped();
    if (!isBlock && !isJoined && !isPasted)
      break;
    if (isJoined)
      message.pop_back();
    event = readLine(line, true);
    if (event == Event::Interrupted)
      return event;
    if (event == Event::End || (isBlock && line == "\"\"\""))
      break;
    if (!message.empty() || !isBlock)
      message += '\n';
    message += line;
  }
  if (editor_ && !message.empty()) {
    HistEvent ignored;
    history(editor_->history, &ignored, H_ENTER, message.c_str());
  }
  return Event::Message;
}

} // namespace moert
