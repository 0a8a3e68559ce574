// A kernel and the host see each other's writes to mapped memory only under
// certain conditions.

#include "test/softgpu/PtxTest.h"

#include <atomic>
#include <thread>

namespace softgpu {
namespace {

struct Shared {
  alignas(64) std::atomic<uint32_t> data = 0;
  alignas(64) std::atomic<uint32_t> flag = 0;
  alignas(64) std::atomic<uint32_t> answer = 0;
};
constexpr int kFlag = 64, kAnswer = 128;

class HostViewTest : public PtxTest {
protected:
  void SetUp() override {
    if (isOnDriver())
      GTEST_SKIP() << "a driver's memory is tested by FlagTest";
  }

  /// Runs blocks of 64 threads on `shared`, whose address is in %rd0, while the
  /// host runs `host`.
  template <class Host>
  void run(const std::string &body, Shared &shared, Host host,
           uint32_t blocks = 1) {
    const Kernel &k = kernel("ld.param.u64 %rd0, [p0];\n"
                             "ld.param.u64 %rd1, [p1];\n"
                             "mov.u32 %r1, %tid.x;\n" +
                                 body,
                             2);
    uint64_t tickets = upload(std::vector<uint32_t>{0}, "tickets");
    uint64_t address =
        gpu.software().memory().map(&shared, sizeof(shared), "shared");
    std::thread thread(host);
    LaunchResult result =
        gpu.run(k, {{blocks, 1, 1}, {64, 1, 1}}, address, tickets);
    thread.join();
    EXPECT_FALSE(result.finding) << result.finding->text;
    gpu.software().memory().free(address);
  }
};

/// Waits until the host answers, so that the launch does not end before.
const std::string kAwaitAnswer = "wait: ld.relaxed.sys.global.u32 %r9, [%rd0 + "
                                 "128];\n"
                                 "setp.eq.u32 %p9, %r9, 0;\n"
                                 "@%p9 bra wait;\n";

// A flag that does not release leaves the data behind.
TEST_F(HostViewTest, AReleasePublishesWhatItsThreadStored) {
  struct {
    const char *name, *store;
    bool isSeen;
  } kCases[] = {
      {"release", "st.release.sys.global.u32 [%rd0 + 64], 1;", true},
      {"relaxed", "st.relaxed.sys.global.u32 [%rd0 + 64], 1;", false},
      {"volatile", "st.volatile.global.u32 [%rd0 + 64], 1;", false},
      {"release of the GPU",
       "st.release.gpu.global.u32 [%rd0 + 64], 1;"
       "st.relaxed.sys.global.u32 [%rd0 + 64], 1;",
       false},
      {"fence", "membar.sys; st.relaxed.sys.global.u32 [%rd0 + 64], 1;", true},
      {"fence of the GPU",
       "membar.gl; st.relaxed.sys.global.u32 [%rd0 + 64], 1;", false},
      {"atomic", "atom.release.sys.global.exch.b32 %r8, [%rd0 + 64], 1;", true},
      {"relaxed atomic",
       "atom.relaxed.sys.global.exch.b32 %r8, [%rd0 + 64], 1;", false}};
  for (auto &c : kCases) {
    SCOPED_TRACE(c.name);
    Shared shared;
    uint32_t seen = ~0u;
    run("setp.ne.u32 %p1, %r1, 0;\n@%p1 bra end;\n"
        "st.global.u32 [%rd0], 5;\n" +
            std::string(c.store) + "\n" + kAwaitAnswer + "end:\n",
        shared, [&] {
          while (!shared.flag)
            std::this_thread::yield();
          seen = shared.data;
          shared.answer = 1;
        });
    EXPECT_EQ(seen, c.isSeen ? 5u : 0u);
    // The value is there when the launch ends, or earlier.
    EXPECT_EQ(shared.data, 5u);
  }
}

// A release covers what a barrier orders before it.
TEST_F(HostViewTest, BarriersOrderTheStoresOfOtherThreads) {
  for (bool hasBarrier : {true, false}) {
    SCOPED_TRACE(hasBarrier);
    Shared shared;
    uint32_t seen = ~0u;
    // Thread 63 stores, thread 0 releases, which is of another warp. Without a
    // barrier it only happens to come later.
    gpu.options().schedule = Schedule::Reversed;
    run("setp.eq.u32 %p1, %r1, 63;\n@%p1 st.global.u32 [%rd0], 5;\n" +
            std::string(hasBarrier ? "bar.sync 0;\n" : "") +
            "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra end;\n"
            "st.release.sys.global.u32 [%rd0 + 64], 1;\n" +
            kAwaitAnswer + "end:\n",
        shared, [&] {
          while (!shared.flag)
            std::this_thread::yield();
          seen = shared.data;
          shared.answer = 1;
        });
    EXPECT_EQ(seen, hasBarrier ? 5u : 0u);
  }
}

// The last of several blocks signals for all of them.
TEST_F(HostViewTest, AReleaseCoversBlocksThatItsBlockHasAcquired) {
  for (bool hasFence : {true, false}) {
    SCOPED_TRACE(hasFence);
    Shared shared;
    uint32_t seen = ~0u;
    run(
        "mov.u32 %r2, %ctaid.x;\n"
        "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra end;\n"
        "setp.eq.u32 %p2, %r2, 0;\n@%p2 st.global.u32 [%rd0], 5;\n" +
            std::string(hasFence ? "membar.gl;\n" : "") +
            "atom.global.add.u32 %r3, [%rd1], 1;\n" +
            std::string(hasFence ? "membar.gl;\n" : "") +
            "setp.ne.u32 %p3, %r3, 1;\n@%p3 bra end;\n"
            "st.release.sys.global.u32 [%rd0 + 64], 1;\n" +
            kAwaitAnswer + "end:\n",
        shared,
        [&] {
          while (!shared.flag)
            std::this_thread::yield();
          seen = shared.data;
          shared.answer = 1;
        },
        2);
    EXPECT_EQ(seen, hasFence ? 5u : 0u);
  }
}

// A thread that has not acquired may have loaded before the host stored.
TEST_F(HostViewTest, AnAcquireShowsWhatTheHostStored) {
  struct {
    const char *name, *load, *after;
    bool isSeen;
  } kCases[] = {
      {"acquire", "ld.acquire.sys", "", true},
      {"relaxed", "ld.relaxed.sys", "", false},
      {"fence", "ld.relaxed.sys", "fence.acq_rel.sys;", true},
      {"fence of the GPU", "ld.relaxed.sys", "fence.acq_rel.gpu;", false}};
  for (auto &c : kCases) {
    SCOPED_TRACE(c.name);
    Shared shared;
    run("setp.ge.u32 %p1, %r1, 32;\n@%p1 bra others;\n"
        "wait: " +
            std::string(c.load) +
            ".global.u32 %r2, [%rd0 + 64];\n"
            "setp.eq.u32 %p2, %r2, 0;\n@%p2 bra wait;\n" +
            c.after +
            "\nothers: bar.sync 0;\n"
            // A thread of another warp, behind the barrier.
            "setp.ne.u32 %p1, %r1, 63;\n@%p1 bra end;\n"
            "ld.global.u32 %r3, [%rd0];\nst.global.u32 [%rd0 + 128], %r3;\n"
            "end:\n",
        shared, [&] {
          shared.data = 7;
          shared.flag.store(1, std::memory_order_release);
        });
    EXPECT_EQ(shared.answer, c.isSeen ? 7u : 0u);
  }
}

} // namespace
} // namespace softgpu
