#include "runtime/base/Page.h"

#include <algorithm>
#include <fmt/format.h>

namespace moert {

/// Shortens a name in the middle, as in "experts_ga...avx512", because both
/// ends of a name matter.
static std::string cutTo(const std::string &cell, size_t widest) {
  if (cell.size() <= widest || widest < 5)
    return cell.substr(0, widest);
  size_t tail = (widest - 3) / 2;
  size_t head = widest - 3 - tail;
  return cell.substr(0, head) + "..." + cell.substr(cell.size() - tail);
}

void Page::group(std::string_view title) {
  text_ += fmt::format("{}{}\n", text_.empty() ? "" : "\n", title);
}

void Page::line(std::string_view label, std::string_view value) {
  text_ += fmt::format("  {:<16} {}\n", label, value);
}

void Page::table(const std::vector<Column> &columns,
                 const std::vector<std::vector<std::string>> &rows) {
  std::vector<size_t> widths;
  for (const Column &column : columns)
    widths.push_back(column.title.size());
  for (const auto &row : rows)
    for (size_t i = 0; i < std::min(row.size(), columns.size()); ++i)
      widths[i] =
          std::max(widths[i], std::min(row[i].size(), columns[i].widest));

  auto add = [&](auto cellOf, size_t cells) {
    std::string text;
    for (size_t i = 0; i < std::min(cells, columns.size()); ++i)
      text += columns[i].right ? fmt::format("  {:>{}}", cellOf(i), widths[i])
                               : fmt::format("  {:<{}}", cellOf(i), widths[i]);
    text_.append(text, 0, text.find_last_not_of(' ') + 1);
    text_ += '\n';
  };
  add([&](size_t i) { return columns[i].title; }, columns.size());
  for (const auto &row : rows)
    add([&](size_t i) { return cutTo(row[i], widths[i]); }, row.size());
}

void Page::paragraph(std::string_view lead, std::string_view text) {
  constexpr size_t lineWidth = 118;
  size_t width = lineWidth - std::min<size_t>(lead.size(), 40);
  std::string margin(lead);
  do {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.starts_with("  ")) {
      text_ += line;
      text_ += '\n';
      continue;
    }
    do {
      std::string_view part = line.substr(0, width);
      if (part.size() < line.size() && line[width] != ' ')
        if (size_t space = part.rfind(' ');
            space != std::string_view::npos && space > 0)
          part = part.substr(0, space);
      line.remove_prefix(part.size());
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      text_ += margin;
      text_ += part;
      text_ += '\n';
      margin.assign(lead.size(), ' ');
    } while (!line.empty());
  } while (!text.empty());
}

} // namespace moert
