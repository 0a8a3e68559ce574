//===- VerifyFields.h - What every field of a plan has to be ----*- C++ -*-===//
//
// The checks that follow from the declaration of a field in plan.fbs. They come
// before those of VerifyTables.cpp and VerifyPhases.cpp, which know what fields
// mean.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_PLAN_VERIFYFIELDS_H
#define MOE_RUNTIME_PLAN_VERIFYFIELDS_H

#include "runtime/plan/PlanAccess.h"
#include "runtime/schema/PlanFields.h"

#include <string>

namespace moert {

/// Exclusive limit for sizes of files and memory regions.
inline constexpr uint64_t kMaxBytes = uint64_t(1) << 48;

/// Verifies a number that is an index into a list of `plan` if its field is
/// called so (PlanFields.h).
template <class Field>
Status verifyIndex(const fb::Plan &plan, uint32_t index) {
  return checkFields<fb::Plan>([&](auto list) {
    if constexpr (kIsIndexInto<Field, decltype(list)>)
      if (uint32_t size = count(list.of(plan)); index >= size)
        return invalidPlan("has {} {} of {}", Field::name, index, size);
    return Status::ok();
  });
}

/// Verifies the fields of a table or struct, but not of tables in it: a bool is
/// 0 or 1, an enum is one of its values, an index is in range, bytes fit a
/// memory, and numbers in vectors are aligned, of which the flatbuffer verifier
/// checks the length only.
template <class T> Status verifyFields(const fb::Plan &plan, const T &table) {
  return checkFields<T>([&](auto field) {
    using Field = decltype(field);
    using Type = typename Field::Type;
    using Element = typename ElementOf<Type>::type;
    if constexpr (std::is_same_v<Type, bool>) {
      if (const uint8_t *stored = Field::stored(table); stored && *stored > 1)
        return invalidPlan("has {} {}, expected 0 or 1", Field::name, *stored);
    } else if constexpr (std::is_enum_v<Type>) {
      if (Type value = Field::of(table); value > Type::MAX)
        return invalidPlan("has {} {}, expected 0 to {}", Field::name,
                           int(value), int(Type::MAX));
    } else if constexpr (std::is_same_v<Type, uint64_t> &&
                         Field::name.ends_with("bytes")) {
      if (uint64_t bytes = Field::of(table); bytes >= kMaxBytes)
        return invalidPlan("has {} {}, more than any memory", Field::name,
                           bytes);
    } else if constexpr (std::is_same_v<Type, uint32_t>) {
      return verifyIndex<Field>(plan, Field::of(table));
    } else if constexpr (std::is_same_v<Element, uint32_t>) {
      for (uint32_t i = 0; i < count(Field::of(table)); ++i)
        MOE_RETURN_IF_ERROR(verifyIndex<Field>(plan, Field::of(table)->Get(i)));
    } else if constexpr (std::is_arithmetic_v<Element>) {
      if (const auto *vector = Field::of(table);
          vector &&
          reinterpret_cast<uintptr_t>(vector->Data()) % alignof(Element))
        return invalidPlan("has {} at a misaligned offset", Field::name);
    }
    return Status::ok();
  });
}

/// Returns the beginning of a message about an entry of a list, which ends with
/// the first of its texts: "weight 3 "output.weight"".
template <class T>
std::string placeOf(std::string_view kind, uint32_t index, const T &entry) {
  std::string place = fmt::format("{} {}", kind, index);
  bool isNamed = false;
  forEachField<T>([&](auto field) {
    using Field = decltype(field);
    if constexpr (std::is_same_v<typename Field::Type,
                                 const flatbuffers::String *>)
      if (!std::exchange(isNamed, true))
        place += " " + quoted(text(Field::of(entry)));
  });
  return place;
}

/// Verifies the fields of each entry of a list and then calls `verify(plan,
/// entry, index)`.
template <class T, class Verify>
Status verifyEach(const fb::Plan &plan,
                  const flatbuffers::Vector<flatbuffers::Offset<T>> *list,
                  std::string_view kind, Verify verify) {
  for (uint32_t i = 0; i < count(list); ++i) {
    const T &entry = *list->Get(i);
    Status status = verifyFields(plan, entry);
    if (status.isOk())
      status = verify(plan, entry, i);
    if (!status.isOk())
      return std::move(status).at(placeOf(kind, i, entry));
  }
  return Status::ok();
}

} // namespace moert

#endif // MOE_RUNTIME_PLAN_VERIFYFIELDS_H
