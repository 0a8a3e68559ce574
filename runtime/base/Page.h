//===- Page.h - Reports in groups, lines and tables -------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_PAGE_H
#define MOE_RUNTIME_BASE_PAGE_H

#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// A column of a table. Cells wider than `widest` are cut in the middle.
struct Column {
  std::string title;
  bool right = false; ///< Numbers stand to the right.
  size_t widest = 16;
};

/// A plain text report of titled groups. Nothing is escaped here: texts from
/// files go through printable() or escaped() first.
class Page {
public:
  /// Starts a group; an empty line sets it off from the one before.
  void group(std::string_view title);

  /// "  label            value". Without a label: one more value of the last.
  void line(std::string_view label, std::string_view value);

  /// Columns as wide as their cells need. A row may have fewer cells than there
  /// are columns.
  void table(const std::vector<Column> &columns,
             const std::vector<std::vector<std::string>> &rows);

  /// `text` broken at spaces to 118 columns, behind a `lead` that the further
  /// lines are indented by. Longer words are broken where the line ends. Lines
  /// that are indented, such as commands to paste, stay as they are.
  void paragraph(std::string_view lead, std::string_view text);

  std::string take() { return std::move(text_); }

private:
  std::string text_;
};

} // namespace moert

#endif // MOE_RUNTIME_BASE_PAGE_H
