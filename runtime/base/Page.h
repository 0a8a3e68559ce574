//===- Page.h - Text reports of groups, lines and tables --------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_PAGE_H
#define MOE_RUNTIME_BASE_PAGE_H

#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// A column of a table. Cells wider than `widest` are shortened in the middle.
struct Column {
  std::string title;
  bool right = false; ///< Right-aligned, for numbers.
  size_t widest = 16;
};

/// A plain text report with titled groups. Nothing is escaped here: texts from
/// files must pass through printable() or escaped() first.
class Page {
public:
  /// Starts a group, after an empty line unless it is the first.
  void group(std::string_view title);

  /// Appends "  label            value". Without a label, adds a value to the
  /// last line's label.
  void line(std::string_view label, std::string_view value);

  /// Appends a table. Columns are as wide as their cells need; rows may be
  /// shorter than the list of columns.
  void table(const std::vector<Column> &columns,
             const std::vector<std::vector<std::string>> &rows);

  /// Appends `text` after `lead`, wrapped at spaces to 118 columns; further
  /// lines are indented by the width of `lead`. Words longer than a line are
  /// broken. Indented lines, such as commands to paste, are not wrapped.
  void paragraph(std::string_view lead, std::string_view text);

  std::string take() { return std::move(text_); }

private:
  std::string text_;
};

} // namespace moert

#endif // MOE_RUNTIME_BASE_PAGE_H
