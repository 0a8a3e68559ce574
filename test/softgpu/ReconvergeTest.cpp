//===- ReconvergeTest.cpp - Reconvergence of diverged lanes ---------------===//
//
// Barriers, shuffles and masks show which lanes are together. Blocks are placed
// where compilers put them, or where they are most difficult.
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/PtxTest.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace softgpu {
namespace {

/// %r0 is the thread, %r1 its lane, %rd0 the output; %p0 holds for half of a
/// warp's lanes, %p1 for every third, %p2 for none.
class ReconvergeTest : public PtxTest {
protected:
  void SetUp() override {
    if (isOnDriver())
      GTEST_SKIP() << "where lanes reconverge on silicon is not specified";
  }
  LaunchResult run(const std::string &body, uint64_t out = 0,
                   uint32_t threads = 64, const std::string &globals = "") {
    std::string start =
        "mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 31; ld.param.u64 %rd0, [p0];\n"
        "setp.lt.u32 %p0, %r1, 16; rem.u32 %r2, %r1, 3;"
        "setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r1, 99;\n";
    return gpu.run(kernel(start + body, 1, 90, globals),
                   {{1, 1, 1}, {threads, 1, 1}, 0}, out);
  }
};

TEST_F(ReconvergeTest, ABlockPlacedAfterItsPostDominator) {
  EXPECT_TRUE(isClean(run("@%p0 bra SLOW;\n"
                          "JOIN: bar.sync 0; bra END;\n"
                          "SLOW: add.u32 %r5, %r1, 1; bra JOIN;\n"
                          "END: mov.u32 %r6, 1;")));
  EXPECT_TRUE(
      isClean(run("@%p0 bra SLOW;\n"
                  "JOIN: shfl.sync.bfly.b32 %r7, %r1, 1, 31, -1; bra END;\n"
                  "SLOW: @%p1 bra INNER;\n"
                  "MEET: vote.sync.any.pred %p3, %p1, 0xffff; bra JOIN;\n"
                  "INNER: add.u32 %r5, %r1, 1; bra MEET;\n"
                  "END: mov.u32 %r6, 1;")));
}

TEST_F(ReconvergeTest, BothPathsPlacedBeforeTheBranch) {
  EXPECT_TRUE(isClean(run("bra START;\n"
                          "JOIN: bar.sync 0; bra END;\n"
                          "ONE: add.u32 %r5, %r1, 1; bra JOIN;\n"
                          "TWO: add.u32 %r5, %r1, 2; bra JOIN;\n"
                          "START: @%p0 bra ONE; bra TWO;\n"
                          "END: mov.u32 %r6, 1;")));
}

// This is the effect of `continue`: some lanes are at the loop's head while
// others still have to execute the rest of the body.
TEST_F(ReconvergeTest, LanesMeetAtALoopsHeadInEveryIteration) {
  for (const char *rest : {"add.u32 %r5, %r1, 1; bra HEAD;\nEND:",
                           "bra REST;\nEND: bra OUT;\n"
                           "REST: add.u32 %r5, %r1, 1; bra HEAD;\nOUT:"})
    EXPECT_TRUE(isClean(run(fmt::format("mov.u32 %r4, 0;\n"
                                        "HEAD: bar.sync 0; add.u32 %r4, %r4, 1;"
                                        "setp.gt.u32 %p3, %r4, 5;\n"
                                        "@%p3 bra END; @%p0 bra HEAD;\n"
                                        "{} mov.u32 %r6, 1;",
                                        rest))));
  // The head post-dominates nothing if there is another exit.
  EXPECT_TRUE(isClean(run(R"(
    mov.u32 %r4, 0;
    HEAD: bar.sync 0; add.u32 %r4, %r4, 1; setp.gt.u32 %p3, %r4, 5;
    @%p3 bra FIRST; @%p0 bra HEAD; add.u32 %r5, %r1, 1;
    @!%p2 bra HEAD; mov.u32 %r6, 2; bra END;
    FIRST: mov.u32 %r6, 1;
    END: mov.u32 %r7, 1;)")));
}

// Lanes leave in different iterations by different exits, to code inside of the
// loop's text.
TEST_F(ReconvergeTest, LoopsWithSeveralExits) {
  EXPECT_TRUE(isClean(run(R"(
    mov.u32 %r4, 0; bra HEAD;
    FIRST: add.u32 %r5, %r1, 1; bra BEHIND;
    HEAD: add.u32 %r4, %r4, 1; setp.gt.u32 %p3, %r4, %r1; @%p3 bra FIRST;
    setp.gt.u32 %p4, %r4, %r2; @%p4 bra SECOND;
    bra HEAD;
    BEHIND: bar.sync 0; bra END;
    SECOND: add.u32 %r5, %r1, 2; bra BEHIND;
    END: mov.u32 %r6, 1;)")));
  // All leave by one of two exits, one after the other, and are together after
  // the loop.
  EXPECT_TRUE(isClean(run(R"(
    mov.u32 %r4, 0; bra HEAD;
    FIRST: bar.sync 0; bra BEHIND;
    SECOND: bar.sync 1; bra BEHIND;
    HEAD: add.u32 %r4, %r4, 1; setp.gt.u32 %p3, %r4, %r1; @%p3 bra FIRST;
    @%p2 bra SECOND; bra HEAD;
    BEHIND: mov.u32 %r6, 1;)")));
}

TEST_F(ReconvergeTest, InnerLoopsWithDifferentIterationCounts) {
  EXPECT_TRUE(isClean(run(R"(
    mov.u32 %r4, 0; bra OUTER;
    MEET: shfl.sync.bfly.b32 %r7, %r5, 1, 31, -1; bar.sync 0;
    setp.lt.u32 %p3, %r4, 4; @%p3 bra OUTER; bra END;
    OUTER: add.u32 %r4, %r4, 1; mov.u32 %r5, 0;
    INNER: setp.ge.u32 %p4, %r5, %r1; @%p4 bra MEET;
    add.u32 %r5, %r5, 1; bra INNER;
    END: mov.u32 %r6, 1;)")));
}

// a || b, where lanes evaluate different parts.
TEST_F(ReconvergeTest, ABlockReachedByShortCircuitConditions) {
  EXPECT_TRUE(isClean(run("@%p0 bra BOTH; @!%p0 bra BOTH; bra NONE;\n"
                          "BOTH: bar.sync 0;\n"
                          "NONE: mov.u32 %r6, 1;")));
  EXPECT_TRUE(isClean(run("bra START;\n"
                          "BOTH: bar.sync 0; bra NONE;\n"
                          "START: @%p0 bra BOTH; @!%p0 bra BOTH;\n"
                          "NONE: mov.u32 %r6, 1;")));
}

// A thread that has ended need not arrive at a barrier, however it came to its
// end.
TEST_F(ReconvergeTest, EarlyExits) {
  EXPECT_TRUE(isClean(run("@%p0 bra END; bar.sync 0; mov.u32 %r6, 1; END:")));
  EXPECT_TRUE(isClean(run("@%p0 bra HOP; bar.sync 0; mov.u32 %r6, 1; ret;\n"
                          "HOP: bra END; mov.u32 %r6, 2;\n END:")));
  EXPECT_TRUE(isClean(run("@%p0 bra WORK; bar.sync 0; bra END;\n"
                          "WORK: st.global.u32 [%rd0], 7;\nEND: ret;",
                          zeros(4))));
  // In a loop, where the remaining lanes diverge and meet again.
  EXPECT_TRUE(isClean(run(R"(
    mov.u32 %r4, 0;
    HEAD: bar.sync 0; setp.eq.u32 %p3, %r4, %r1; @%p3 bra END;
    add.u32 %r4, %r4, 1; @%p0 bra HEAD; add.u32 %r5, %r4, 1; bra HEAD;
    END: ret;)")));
}

// All lanes arrive at each iteration's barrier, some by way of an outer loop's
// head. If some of them end in an iteration, nothing changes for the others.
TEST_F(ReconvergeTest, EarlyExitsDoNotAffectReconvergence) {
  for (const char *leaves : {"", "setp.eq.u32 %p4, %r4, %r1; @%p4 bra END;"})
    EXPECT_TRUE(isClean(run(fmt::format(R"(
      mov.u32 %r4, 0;
      HEAD: add.u32 %r5, %r1, 1;
      ROUND: bar.sync 0; setp.eq.u32 %p3, %r4, 40; @%p3 bra END;
      add.u32 %r4, %r4, 1; {} @%p0 bra ROUND; bra HEAD;
      END: ret;)",
                                        leaves))))
        << leaves;
}

TEST_F(ReconvergeTest, DivergentBarriersAreFound) {
  EXPECT_TRUE(found(run("@%p0 bra OTHER; bar.sync 0; bra END;\n"
                        "OTHER: bar.sync 0; END: mov.u32 %r6, 1;"),
                    FindingKind::DivergentBarrier));
  // Each lane has a different number of iterations.
  EXPECT_TRUE(found(run(R"(
    mov.u32 %r4, 0;
    HEAD: bar.sync 0; add.u32 %r4, %r4, 1;
    setp.lt.u32 %p3, %r4, %r1; @%p3 bra HEAD; mov.u32 %r6, 1;)"),
                    FindingKind::DivergentBarrier));
  EXPECT_TRUE(found(run("@!%p0 bra JOIN; bar.sync 0;\n"
                        "JOIN: mov.u32 %r6, 1;"),
                    FindingKind::DivergentBarrier, {"lanes 0xffff of"}));
  EXPECT_TRUE(
      found(run("@!%p0 bra JOIN; shfl.sync.bfly.b32 %r7, %r1, 1, 31, -1;\n"
                "JOIN: mov.u32 %r6, 1;"),
            FindingKind::DivergentWarp));
}

// Other groups get a turn so that lanes do not wait for each other for ever.
// That must not take the first lanes past what they have to do together with
// others.
TEST_F(ReconvergeTest, SlowPathsAreWaitedFor) {
  for (const char *meeting :
       {"bar.sync 0;", "shfl.sync.bfly.b32 %r7, %r1, 1, 31, -1;",
        "bar.warp.sync -1;", "vote.sync.any.pred %p3, %p1, -1;",
        "redux.sync.add.u32 %r7, %r1, -1;",
        "movmatrix.sync.aligned.m8n8.trans.b16 %r7, %r1;"})
    EXPECT_TRUE(isClean(run(fmt::format(R"(
      mov.u32 %r4, 0; @%p0 bra JOIN;
      SLOW: add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 50000; @%p3 bra SLOW;
      JOIN: {} mov.u32 %r6, 1;)",
                                        meeting))))
        << meeting;
  // The waiting lanes run past code that only the other lanes execute.
  gpu.options().instructionLimit = 10'000'000;
  EXPECT_TRUE(isClean(run(R"(
    @%p0 bra JOIN;
    WAIT: ld.volatile.global.u32 %r4, [%rd0]; setp.eq.u32 %p3, %r4, 0;
    @%p3 bra WAIT; bra END;
    JOIN: shfl.sync.bfly.b32 %r7, %r1, 1, 31, 0xffff;
    st.volatile.global.u32 [%rd0], 1;
    END: bar.warp.sync -1;)",
                          zeros(4), 32)));
}

TEST_F(ReconvergeTest, ReconvergesAfterACallThatReturnsEarly) {
  EXPECT_TRUE(isClean(
      run("{ .param .b32 x; st.param.b32 [x], %r1; call.uni half, (x); }\n"
          "bar.sync 0; mov.u32 %r6, 1;",
          0, 64,
          ".func half(.param .b32 x) { .reg .b32 %a; .reg .pred %q;"
          "ld.param.b32 %a, [x]; setp.lt.u32 %q, %a, 16; @%q ret;"
          "add.u32 %a, %a, 1; setp.lt.u32 %q, %a, 20; @%q ret;"
          "add.u32 %a, %a, 1; ret; }")));
}

TEST_F(ReconvergeTest, ReconvergesAfterAnIndexedBranch) {
  EXPECT_TRUE(isClean(run(R"(
    bra START;
    ZERO: add.u32 %r5, %r1, 1; bra JOIN;
    JOIN: bar.sync 0; bra END;
    TWO: add.u32 %r5, %r1, 3; bra JOIN;
    START: table: .branchtargets ZERO, ONE, TWO;
    brx.idx %r2, table;
    ONE: add.u32 %r5, %r1, 2; bra JOIN;
    END: mov.u32 %r6, 1;)")));
}

//===----------------------------------------------------------------------===//
// Random graphs
//===----------------------------------------------------------------------===//

/// Blocks with two successors each, chosen by a lane's bits; the second one
/// leads to the end. Block 0 is the entry, the last one the exit.
struct Graph {
  std::vector<std::array<int, 2>> next;
  std::vector<int> layout; ///< Order of the blocks in the text.
  int last() const { return int(next.size()) - 1; }

  /// Whether `from` leads to the end without passing `without`.
  bool ends(int from, int without) const {
    std::vector<bool> seen(next.size());
    std::vector<int> todo{from};
    while (!todo.empty()) {
      int block = todo.back();
      todo.pop_back();
      if (block == without || seen[size_t(block)])
        continue;
      seen[size_t(block)] = true;
      if (block == last())
        return true;
      todo.insert(todo.end(), next[size_t(block)].begin(),
                  next[size_t(block)].end());
    }
    return false;
  }
};

/// After so many steps, a lane goes straight to the end.
constexpr uint32_t kSteps = 60;

/// Returns the blocks that a lane passes, in order.
std::vector<int> wayOf(const Graph &graph, uint32_t lane) {
  std::vector<int> way{0};
  uint32_t bits = lane * 2654435761u ^ lane << 7;
  for (uint32_t step = 1; way.back() != graph.last(); ++step) {
    bits = bits * 1664525u + 1013904223u;
    bool isSecond = step > kSteps || bits >> 31;
    way.push_back(graph.next[size_t(way.back())][isSecond]);
  }
  return way;
}

std::string textOf(const Graph &graph) {
  std::string text =
      "ld.param.u64 %rd0, [p0]; mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 7;\n"
      "mul.lo.u32 %r2, %r0, 2654435761; xor.b32 %r2, %r2, %r1;\n"
      "mov.u32 %r3, 0; mul.wide.u32 %rd1, %r0, 4; add.u64 %rd2, %rd0, %rd1;\n"
      "bra B0;\n";
  for (int block : graph.layout) {
    // Record the lanes that are here, and how often each one was.
    text += fmt::format(
        "B{0}: activemask.b32 %r4; st.global.u32 [%rd0+{1}], %r4;\n"
        "ld.global.u32 %r5, [%rd2+{2}];\n"
        "add.u32 %r5, %r5, 1; st.global.u32 [%rd2+{2}], %r5;\n",
        block, 4 * block, 4 * graph.next.size() + 128 * size_t(block));
    auto [first, second] = graph.next[size_t(block)];
    if (block == graph.last())
      text += "bra DONE;\n";
    else
      text += fmt::format(
          "add.u32 %r3, %r3, 1; setp.gt.u32 %p0, %r3, {};\n"
          "mad.lo.u32 %r2, %r2, 1664525, 1013904223;\n"
          "setp.ge.or.u32 %p1, %r2, 0x80000000, %p0; @%p1 bra B{}; bra B{};\n",
          kSteps, second, first);
  }
  return text + "DONE: bar.sync 0;";
}

class RandomGraphs : public PtxTest, public ::testing::WithParamInterface<int> {
protected:
  void SetUp() override {
    if (isOnDriver())
      GTEST_SKIP() << "where lanes reconverge on silicon is not specified";
  }
  Graph graph(bool hasLoops) {
    auto below = [&](int limit) { return int(random_() % uint32_t(limit)); };
    int size = 3 + below(14);
    Graph graph;
    for (int i = 0; i < size - 1; ++i) {
      auto after = [&](int least) { return least + below(size - least); };
      graph.next.push_back({after(hasLoops ? 1 : i + 1), after(i + 1)});
    }
    graph.next.push_back({size - 1, size - 1});
    graph.layout.resize(size_t(size));
    std::iota(graph.layout.begin(), graph.layout.end(), 0);
    for (int i = size; i > 1; --i)
      std::swap(graph.layout[size_t(i - 1)], graph.layout[size_t(below(i))]);
    return graph;
  }
  /// Runs it: lanes must have passed the blocks of their paths, and end
  /// together. Returns which lanes were the last at each block.
  std::vector<uint32_t> run(const Graph &graph) {
    size_t size = graph.next.size();
    uint64_t out = zeros(4 * size + 128 * size);
    EXPECT_TRUE(isClean(
        gpu.run(kernel(textOf(graph), 1, 90), {{1, 1, 1}, {32, 1, 1}, 0}, out)))
        << textOf(graph);
    auto found = download<uint32_t>(out, 33 * size);
    std::vector<uint32_t> masks(found.begin(), found.begin() + long(size));
    std::vector<uint32_t> counts(found.begin() + long(size), found.end());
    std::vector<uint32_t> expected(32 * size);
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (int block : wayOf(graph, lane))
        ++expected[32 * size_t(block) + lane];
    EXPECT_EQ(counts, expected) << textOf(graph);
    EXPECT_EQ(masks.back(), ~0u) << textOf(graph);
    return masks;
  }
  std::mt19937 random_{uint32_t(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphs, ::testing::Range(0, 8));

// Without loops each block runs once, for all lanes that ever arrive.
TEST_P(RandomGraphs, WithoutLoopsBlocksRunOnce) {
  for (int i = 0; i < 25; ++i) {
    Graph g = graph(false);
    std::vector<uint32_t> masks = run(g), expected(masks.size());
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (int block : wayOf(g, lane))
        expected[size_t(block)] |= 1u << lane;
    EXPECT_EQ(masks, expected) << textOf(g);
  }
}

// With loops that have one or several heads, no block is ordered before one
// that it post-dominates.
TEST_P(RandomGraphs, PostDominatorsComeLast) {
  int pairs = 0;
  for (int i = 0; i < 25; ++i) {
    Graph g = graph(true);
    run(g);
    const Kernel &k = kernel(textOf(g), 1, 90);
    std::vector<uint32_t> order(g.next.size());
    size_t at = 0;
    for (size_t op = 0; op < k.ops.size(); ++op)
      if (k.texts[op].starts_with("activemask"))
        order[size_t(g.layout[at++])] = k.ops[op].turn;
    ASSERT_EQ(at, order.size());
    std::vector<bool> isUsed(order.size()); // Unreachable blocks stay unused.
    std::vector<int> todo{0};
    while (!todo.empty()) {
      int block = todo.back();
      todo.pop_back();
      if (isUsed[size_t(block)])
        continue;
      isUsed[size_t(block)] = true;
      todo.insert(todo.end(), g.next[size_t(block)].begin(),
                  g.next[size_t(block)].end());
    }
    for (int above = 0; above <= g.last(); ++above)
      for (int below = 0; below <= g.last(); ++below)
        if (above != below && isUsed[size_t(above)] && isUsed[size_t(below)] &&
            !g.ends(below, above)) {
          ++pairs;
          EXPECT_GT(order[size_t(above)], order[size_t(below)])
              << above << " post-dominates " << below << "\n"
              << textOf(g);
        }
  }
  EXPECT_GT(pairs, 100);
}

// An endless loop has an order too.
TEST_F(ReconvergeTest, LoopsWithoutAnEnd) {
  gpu.options().instructionLimit = 100'000;
  EXPECT_TRUE(found(run("@%p0 bra OTHER;\nL: bra M;\nM: bra L;\n"
                        "OTHER: mov.u32 %r6, 1; bra OTHER;"),
                    FindingKind::Endless));
}

} // namespace
} // namespace softgpu
