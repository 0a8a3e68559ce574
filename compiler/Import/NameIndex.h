//===- NameIndex.h - Finds names in a vector --------------------*- C++ -*-===//
//
// Uses a sorted permutation instead of a hash table: no input makes it
// quadratic, and duplicates are neighbours.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_IMPORT_NAMEINDEX_H
#define MOE_COMPILER_IMPORT_NAMEINDEX_H

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace moec {

class NameIndex {
public:
  /// Sorts the positions 0 .. size-1 by `nameOf(position)`.
  template <typename NameOf> void build(size_t size, NameOf nameOf) {
    order_.resize(size);
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return nameOf(a) < nameOf(b); });
  }

  template <typename NameOf>
  std::optional<size_t> find(std::string_view name, NameOf nameOf) const {
    auto it = std::lower_bound(order_.begin(), order_.end(), name,
                               [&](size_t at, std::string_view wanted) {
                                 return nameOf(at) < wanted;
                               });
    if (it == order_.end() || nameOf(*it) != name)
      return std::nullopt;
    return *it;
  }

  /// Returns two positions with the same name, the earlier one first.
  template <typename NameOf>
  std::optional<std::pair<size_t, size_t>> findDuplicate(NameOf nameOf) const {
    auto it = std::adjacent_find(
        order_.begin(), order_.end(),
        [&](size_t a, size_t b) { return nameOf(a) == nameOf(b); });
    if (it == order_.end())
      return std::nullopt;
    return std::pair(*it, *std::next(it));
  }

private:
  std::vector<size_t> order_;
};

} // namespace moec

#endif // MOE_COMPILER_IMPORT_NAMEINDEX_H
