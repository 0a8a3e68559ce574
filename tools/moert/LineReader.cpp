#include "tools/moert/LineReader.h"

#include "tools/common/Interrupt.h"
#include "tools/common/Output.h"

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <histedit.h>
#include <unistd.h>

namespace moert {

struct LineReader::Editor {
  EditLine *line = nullptr;
  History *history = nullptr;
  bool continues = false;
  bool isPasting = false; ///< What comes is pasted, not typed.

  static Editor &of(EditLine *line) {
    Editor *editor = nullptr;
    el_get(line, EL_CLIENTDATA, &editor);
    return *editor;
  }
  static unsigned char beginPaste(EditLine *line, int) {
    of(line).isPasting = true;
    return CC_NORM;
  }
  static unsigned char endPaste(EditLine *line, int) {
    of(line).isPasting = false;
    return CC_NORM;
  }

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
        static char first[] = "> ", next[] = "| ";
        return Editor::of(line).continues ? next : first;
      });
  el_set(editor_->line, EL_EDITOR, "emacs");
  el_set(editor_->line, EL_HIST, history, editor_->history);
  el_set(editor_->line, EL_SIGNAL, 0);
  el_set(editor_->line, EL_ADDFN, "begin-paste", "What follows is pasted",
         &Editor::beginPaste);
  el_set(editor_->line, EL_ADDFN, "end-paste", "What was pasted ends",
         &Editor::endPaste);
  el_set(editor_->line, EL_BIND, "\033[200~", "begin-paste", nullptr);
  el_set(editor_->line, EL_BIND, "\033[201~", "end-paste", nullptr);
}

LineReader::~LineReader() = default;

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
  if (!editor_)
    return readMessage(message);
  moetool::setBracketedPaste(true);
  Event event = readMessage(message);
  moetool::setBracketedPaste(false);
  editor_->isPasting = false; // a paste may have been interrupted
  return event;
}

LineReader::Event LineReader::readMessage(std::string &message) {
  message.clear();
  std::string line;
  bool wasPasted = false;
  Event event = readLine(line, false);
  if (event != Event::Message)
    return event;
  bool isBlock = line == "\"\"\"";
  if (!isBlock)
    message = line;
  while (true) {
    bool isJoined = !isBlock && message.ends_with('\\');
    bool isPasted = !isBlock && editor_ && editor_->isPasting;
    wasPasted |= isPasted;
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
  // A paste may end with a line's end, behind which nothing was typed.
  if (wasPasted && message.ends_with('\n'))
    message.pop_back();
  if (editor_ && !message.empty()) {
    HistEvent ignored;
    history(editor_->history, &ignored, H_ENTER, message.c_str());
  }
  return Event::Message;
}

} // namespace moert
