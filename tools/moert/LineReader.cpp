#include "tools/moert/LineReader.h"

#include "tools/common/Interrupt.h"
#include "tools/common/Output.h"

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <histedit.h>
#include <unistd.h>

namespace moert {

struct LineReader::Editor {
  EditLine *line = nullptr;
  ::History *history = nullptr;
  bool continues = false;
  /// Pasted text that has not been inserted into a line yet.
  std::wstring pasted;

  /// Reads up to the end of a paste.
  void readPaste();
  /// Inserts the first line of the pasted text into the line; returns libedit's
  /// next action.
  unsigned char insertPasted();

  ~Editor() {
    if (line)
      el_end(line);
    if (history)
      history_end(history);
  }
};

namespace {
/// Sequences that a terminal sends before and after a paste
/// (setBracketedPaste()).
constexpr char kPasteBegins[] = "\033[200~";
constexpr std::wstring_view kPasteEnds = L"\033[201~";
constexpr size_t kMostPasted = size_t{64} << 20;
} // namespace

void LineReader::Editor::readPaste() {
  wchar_t c = 0;
  while (pasted.size() < kMostPasted && el_wgetc(line, &c) == 1) {
    pasted += c == L'\r' ? L'\n' : c;
    if (pasted.ends_with(kPasteEnds)) {
      pasted.resize(pasted.size() - kPasteEnds.size());
      return;
    }
  }
}

unsigned char LineReader::Editor::insertPasted() {
  size_t length = std::min(pasted.find(L'\n'), pasted.size());
  bool endsLine = length < pasted.size();
  if (endsLine) {
    // Text after the cursor goes after the last line of the paste.
    const LineInfoW *info = el_wline(line);
    std::wstring rest(info->cursor, info->lastchar);
    el_cursor(line, int(rest.size()));
    el_wdeletestr(line, int(rest.size()));
    pasted += rest;
    el_push(line, "\n");
  }
  el_winsertstr(line, pasted.substr(0, length).c_str());
  pasted.erase(0, length + endsLine);
  return CC_REFRESH;
}

LineReader::LineReader() : isTerminal_(::isatty(STDIN_FILENO)) {
  if (!isTerminal_)
    return;
  // Needed so that characters of several bytes move the cursor by one.
  std::setlocale(LC_CTYPE, "");
  editor_ = std::make_unique<Editor>();
  editor_->line = el_init("moert", stdin, stdout, stderr);
  editor_->history = history_init();
  if (!editor_->line || !editor_->history) {
    editor_.reset(); // From then on, lines are read without editing.
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
  el_set(
      editor_->line, EL_ADDFN, "moert-paste", "Insert what is pasted",
      +[](EditLine *line, int) -> unsigned char {
        Editor *editor = nullptr;
        el_get(line, EL_CLIENTDATA, &editor);
        if (editor->pasted.empty())
          editor->readPaste();
        return editor->insertPasted();
      });
  el_set(editor_->line, EL_BIND, kPasteBegins, "moert-paste", nullptr);
}

LineReader::~LineReader() = default;

LineReader::Event LineReader::readLine(std::string &line, bool continues) {
  line.clear();
  if (editor_) {
    editor_->continues = continues;
    int count = 0;
    errno = 0;
    moetool::setBracketedPaste(true);
    // The next line of a paste is inserted like the first one.
    if (!editor_->pasted.empty())
      el_push(editor_->line, kPasteBegins);
    const char *text = el_gets(editor_->line, &count);
    moetool::setBracketedPaste(false);
    if (moetool::takeInterrupt()) {
      editor_->pasted.clear();
      return Event::Interrupted;
    }
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
    bool isPasted = !isBlock && editor_ && !editor_->pasted.empty();
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
