#include "test/softcpu/VectorTest.h"

#include <functional>

using namespace moek::test;

namespace {
enum class Last { Register, Memory, Broadcast };

/// One form of an instruction, as MOE_FORMS2 lists them.
struct FormInfo {
  unsigned needs; ///< Flags of the CPU that are needed.
  size_t length;  ///< Vector length.
  int mask;
  bool zeroing;
  int to, middle, from;
  Last last;
};

constexpr FormInfo kFormTable[kForms] = {
    {0, 64, 0, false, 1, 2, 3, Last::Register},
    {MASKED, 64, 1, false, 1, 2, 3, Last::Register},
    {MASKED, 64, 2, true, 31, 28, 19, Last::Register},
    {MASKED | YMM, 32, 3, false, 1, 2, 3, Last::Register},
    {MASKED | XMM, 16, 1, true, 1, 2, 3, Last::Register},
    {XMM, 16, 0, false, 1, 2, 3, Last::Register},
    {MASKED, 64, 1, false, 1, 1, 1, Last::Register},
    {0, 64, 0, false, 1, 2, 3, Last::Memory},
    {MASKED, 64, 1, false, 1, 2, 3, Last::Memory},
    {MASKED | XMM, 16, 2, true, 1, 2, 3, Last::Memory},
    {MASKED | TO16, 64, 1, false, 1, 2, 3, Last::Broadcast},
    {MASKED | TO8, 64, 1, false, 1, 2, 3, Last::Broadcast},
    {VEX | YMM, 32, 0, false, 1, 2, 3, Last::Register},
    {VEX | XMM, 16, 0, false, 1, 2, 3, Last::Register},
};
constexpr size_t kFirstVexForm = 12;

constexpr int kMaskDestination = 5;

class CaseRun {
public:
  CaseRun(const VectorCase &test, const FormInfo &form, GuardedMemory &memory,
          unsigned seed)
      : test_(test), form_(form), memory_(memory), random_(seed),
        before_(randomRegisters(random_)) {}

  void run(Code code) {
    if (test_.flags & IMMEDIATE) {
      immediate_ = random_() & 255;
      code.bytes[lengthOf(code) - 1] = uint8_t(immediate_);
    }
    if (form_.last != Last::Register)
      placeMemory();
    Beyond beyond = test_.flags & BF16  ? Beyond::Bf16
                    : form_.needs & VEX ? Beyond::AvxVnni
                                        : Beyond::Nothing;
    Registers after =
        executeBoth(code, before_, &memory_, beyond,
                    test_.toFloat ? std::max<size_t>(test_.toBytes, 4) : 0);
    Registers expected = before_;
    if (test_.flags & TO_MASK)
      expectMask(expected);
    else
      expectVector(expected, after);
    expectSame(after, expected);
  }

  /// This form with a VEX prefix must do natively what the one with an EVEX
  /// prefix does in software; the register names are the same.
  void runTwin(Code vex, const Code &form, size_t length) {
    Code evex = form;
    if (test_.flags & IMMEDIATE) {
      immediate_ = random_() & 255;
      vex.bytes[lengthOf(vex) - 1] = uint8_t(immediate_);
      evex.bytes[lengthOf(evex) - 1] = uint8_t(immediate_);
    }
    Registers natively = executeNatively(vex, before_, Native::Avx2);
    Registers after = execute(evex, before_);
    size_t bytes = std::min<size_t>(length, 32);
    EXPECT_EQ(std::memcmp(after.vector[1].bytes, natively.vector[1].bytes,
                          std::min(bytes, test_.shape.to(length))),
              0)
        << "the form with a VEX prefix gives another result";
  }

private:
  size_t count() const {
    if (!(test_.flags & TO_MASK))
      return test_.shape.to(form_.length) / test_.toBytes;
    return test_.flags & SCALAR ? 1 : form_.length / test_.fromBytes;
  }

  /// Places the operand right before the end of memory.
  void placeMemory() {
    size_t bytes = form_.last == Last::Broadcast
                       ? test_.fromBytes
                       : test_.shape.from(form_.length);
    std::byte *at = memory_.end() - bytes;
    randomise(random_, at, bytes);
    auto address = reinterpret_cast<uint64_t>(at);
    size_t element = test_.flags & TO16 ? 4 : 8;
    before_.general[0] =
        address - (form_.last == Last::Broadcast ? element : 0);
    before_.general[2] = random_() % 1000;
    before_.general[1] = address - 64 - 4 * before_.general[2];
    before_.general[3] = address + 3;
    for (size_t i = 0; i < sizeof(last_.bytes); ++i)
      last_.bytes[i] = i < bytes ? at[i] : last_.bytes[i - bytes];
  }

  Operands operands() {
    if (form_.last == Last::Register)
      last_ = before_.vector[form_.from];
    return {&before_.vector[form_.middle],
            &last_,
            &before_.vector[form_.to],
            form_.length,
            count(),
            immediate_};
  }

  bool isActive(size_t i) const {
    return form_.mask == 0 || before_.mask[form_.mask] >> i & 1 ||
           (test_.flags & SCALAR && i > 0);
  }

  void expectMask(Registers &expected) {
    uint64_t bits = 0;
    Operands sources = operands();
    for (size_t i = 0; i < count(); ++i) {
      bool bit = false;
      test_.element(sources, i, &bit);
      bits |= uint64_t(bit && isActive(i)) << i;
    }
    expected.mask[kMaskDestination] = bits;
  }

  void expectVector(Registers &expected, const Registers &after) {
    Vector result = {};
    Operands sources = operands();
    for (size_t i = 0; i < count(); ++i) {
      size_t at = i * test_.toBytes;
      if (isActive(i)) {
        test_.element(sources, i, result.bytes + at);
        const std::byte *actual = after.vector[form_.to].bytes + at;
        if (test_.toFloat && isNan(actual, test_.toBytes) &&
            isNan(result.bytes + at, test_.toBytes))
          std::memcpy(result.bytes + at, actual, test_.toBytes);
      } else if (!form_.zeroing) {
        int kept = test_.flags & BLEND ? form_.middle : form_.to;
        std::memcpy(result.bytes + at, before_.vector[kept].bytes + at,
                    test_.toBytes);
      }
    }
    expected.vector[form_.to] = result;
  }

  const VectorCase &test_;
  const FormInfo &form_;
  GuardedMemory &memory_;
  std::mt19937 random_;
  Registers before_;
  Vector last_ = {};
  unsigned immediate_ = 0;
};
} // namespace

void moek::test::checkCase(const VectorCase &test, const Code *forms) {
  SCOPED_TRACE(test.name);
  int failures = failureCount();
  constexpr unsigned kRepeats = 12, kImmediateRepeats = 48;
  GuardedMemory memory;
  unsigned repeats = test.flags & IMMEDIATE ? kImmediateRepeats : kRepeats;
  for (size_t i = 0; i < kForms; ++i) {
    const FormInfo &form = kFormTable[i];
    if ((test.flags & form.needs) != form.needs ||
        (test.flags & REGISTER && form.last == Last::Memory) ||
        (test.flags & MEMORY && form.last != Last::Memory))
      continue;
    SCOPED_TRACE("form " + std::to_string(i));
    for (unsigned seed = 0; seed < repeats; ++seed) {
      CaseRun run(test, form, memory, 1000 * unsigned(i) + seed);
      if (i < kFirstVexForm || test.flags & VNNI)
        run.run(forms[i]);
      else if (form.length == 16)
        run.runTwin(forms[i], forms[5], 16);
      else
        run.runTwin(forms[i], forms[0], 32);
      if (failureCount() > failures)
        return;
    }
  }
}
