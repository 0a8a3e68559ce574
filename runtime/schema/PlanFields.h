//===- PlanFields.h - Walks the fields of a plan's tables -------*- C++ -*-===//
//
// plan.fbs is the only list of the fields of a plan. What writes, reads, checks
// or prints every field asks this header, so that a new field needs no line
// there.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SCHEMA_PLANFIELDS_H
#define MOE_RUNTIME_SCHEMA_PLANFIELDS_H

#include "runtime/base/Status.h"
#include "runtime/schema/plan_generated.h"

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

namespace moert {

/// Field number `I` of `T`, a table or struct of plan.fbs.
template <class T, size_t I> struct PlanField {
  static constexpr size_t number = I;
  /// The type that the table returns: a number, a bool, an enum or a pointer.
  using Type = typename T::Traits::template FieldType<I>;

  /// The name in plan.fbs; flatc appends a _ to words of C++.
  static constexpr std::string_view name = [] {
    std::string_view spelled = T::Traits::field_names[I];
    return spelled.substr(0, spelled.size() - spelled.ends_with('_'));
  }();

  static Type of(const T &table) { return table.template get_field<I>(); }

  /// Returns what of() returns for a table without the field: its default.
  static Type absent() {
    // A vtable (its bytes and the table's) and the table, which is as far
    // behind it as its first number says.
    alignas(uint64_t) static constexpr uint16_t kEmpty[] = {4, 4, 4, 0};
    return of(*reinterpret_cast<const T *>(kEmpty + 2));
  }

  /// Returns the field of a table as it is stored, or null if it is absent.
  static const uint8_t *stored(const T &table) {
    return reinterpret_cast<const flatbuffers::Table &>(table).GetAddressOf(
        flatbuffers::FieldIndexToOffset(flatbuffers::voffset_t(I)));
  }
};

/// Calls `visit(PlanField<T, I>())` for each field, in the order of plan.fbs.
template <class T, class Visit> constexpr void forEachField(Visit &&visit) {
  [&]<size_t... I>(std::index_sequence<I...>) {
    (visit(PlanField<T, I>()), ...);
  }
  (std::make_index_sequence<T::Traits::fields_number>());
}

/// Calls `check(PlanField<T, I>())` for each field until one returns an error,
/// which it returns.
template <class T, class Check> Status checkFields(Check &&check) {
  Status status;
  forEachField<T>([&](auto field) {
    if (status.isOk())
      status = check(field);
  });
  return status;
}

/// The element type of a vector in a table; void if `Type` is no vector.
template <class Type> struct ElementOf { using type = void; };
template <class E> struct ElementOf<const flatbuffers::Vector<E> *> {
  using type = E;
};

/// Whether the numbers of `Field` are indices into `List`, a list of Plan:
/// those of fields of type uint32 or [uint32] that are called like the list, or
/// like one entry of it ("device" of "devices").
template <class Field, class List>
inline constexpr bool kIsIndexInto =
    !std::is_void_v<typename ElementOf<typename List::Type>::type> &&
    (std::is_same_v<typename Field::Type, uint32_t> ||
     std::is_same_v<typename ElementOf<typename Field::Type>::type,
                    uint32_t>)&&(List::name == Field::name ||
                                 (List::name.ends_with('s') &&
                                  List::name.substr(0, List::name.size() - 1) ==
                                      Field::name));

} // namespace moert

#endif // MOE_RUNTIME_SCHEMA_PLANFIELDS_H
