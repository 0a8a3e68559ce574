#include "runtime/plan/Plan.h"

#include "kernels/Registry.h"
#include "runtime/base/ContentHash.h"
#include "runtime/base/MappedFile.h"
#include "runtime/base/ReadInput.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/Recompile.h"
#include "runtime/plan/Verify.h"
#include "runtime/schema/OpTable.h"
#include "runtime/schema/PlanChecksum.h"

#include <algorithm>
#include <set>
#include <sys/stat.h>

namespace moert {

namespace {
/// Tables nest at most as Plan > Plan > Phase > Instruction > Operand.
constexpr flatbuffers::uoffset_t maxDepth = 8;
/// A 61-layer model has about 30,000 tables. The limit bounds the time to
/// verify a plan whose tables are shared.
constexpr flatbuffers::uoffset_t maxTables = 8'000'000;
/// Size of the root offset and the identifier.
constexpr size_t minimumBytes = 8;

Status checkForm(std::span<const uint8_t> bytes, const std::string &path) {
  if (bytes.size() >= 4 && std::equal(bytes.begin(), bytes.begin() + 4, "GGUF"))
    return Status(StatusCode::Usage, "is a GGUF model, not a plan")
        .suggesting(compileFirst(path));
  if (bytes.size() < minimumBytes)
    return invalidPlan("holds {}, too short for a plan",
                       counted(bytes.size(), "byte"));
  // The flatbuffer verifier checks this only by an assertion.
  if (bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return invalidPlan("holds {} bytes; a plan is smaller than 2 GiB",
                       bytes.size());
  if (!fb::PlanBufferHasIdentifier(bytes.data()))
    return invalidPlan(
        "is not a plan: bytes 4 to 7 are {}, expected \"{}\"",
        quoted({reinterpret_cast<const char *>(bytes.data()) + 4, 4}),
        fb::PlanIdentifier());
  return Status::ok();
}

Status checkVersion(const fb::Plan &plan, const std::string &path) {
  if (plan.schema_version() == kSchemaVersion)
    return Status::ok();
  // The rungs of a ladder record how they were compiled.
  const fb::Plan &made = count(plan.rungs()) > 0 ? *plan.rungs()->Get(0) : plan;
  return Status(StatusCode::WrongMachine,
                fmt::format("has schema version {} (written by {}), this moert "
                            "reads version {}",
                            plan.schema_version(),
                            quoted(text(plan.compiler())), kSchemaVersion))
      .suggesting(recompile(Suggestion::ForThisVersion, made, path));
}
} // namespace

StatusOr<Plan> Plan::load(const std::string &path) {
  if (path == "-")
    return Status(StatusCode::Usage,
                  "a plan cannot be read from standard input, because its "
                  "weight files lie beside it; give the path of plan.fb");
  MOE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  return fromBytes(file.bytes(), path);
}

StatusOr<Plan> Plan::read(const std::string &path) {
  struct stat info;
  if (path != "-" && (::stat(path.c_str(), &info) != 0 ||
                      !(S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode))))
    return load(path);
  constexpr uint64_t most = uint64_t(1) << 31; // The limit of flatbuffers.
  MOE_ASSIGN_OR_RETURN(
      std::string bytes, readInput(path, most, [&](std::string_view start) {
        return checkForm({reinterpret_cast<const uint8_t *>(start.data()),
                          start.size()},
                         path)
            .at(inputName(path));
      }));
  return fromBytes(
      {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()},
      inputName(path));
}

StatusOr<Plan> Plan::fromBytes(std::span<const uint8_t> bytes,
                               std::string path) {
  MOE_RETURN_IF_ERROR(checkForm(bytes, path).at(path));
  // A private copy: verified bytes must not change in a running session when
  // the file changes.
  Plan plan({bytes.begin(), bytes.end()}, std::move(path));
  flatbuffers::Verifier verifier(plan.bytes_.data(), plan.bytes_.size(),
                                 maxDepth, maxTables);
  if (!fb::VerifyPlanBuffer(verifier))
    return invalidPlan("is damaged: an offset inside it is out of bounds; "
                       "copy it again or recompile the model")
        .at(plan.path_);
  MOE_RETURN_IF_ERROR(checkVersion(plan.rung(0), plan.path_).at(plan.path_));
  if (!matchesPlanChecksum(plan.bytes_))
    return invalidPlan("is damaged: its checksum is not that of its content; "
                       "copy it again or recompile the model")
        .at(plan.path_);
  const fb::Plan &root = plan.rung(0);
  plan.chosen_ = count(root.rungs());
  Status sound = plan.chosen_ > 0 ? verifyLadder(root) : verifyPlan(root);
  if (sound.code() == StatusCode::WrongMachine)
    sound = std::move(sound).suggesting(
        recompile(Suggestion::KnownKernels, plan.table(), plan.path_));
  MOE_RETURN_IF_ERROR(std::move(sound).at(plan.path_));
  return plan;
}

const fb::Plan &Plan::table() const { return rung(chosen_); }

const fb::Plan &Plan::rung(uint32_t number) const {
  const fb::Plan &root = *fb::GetPlan(bytes_.data());
  return number == 0 || rungs() == 0 ? root : *root.rungs()->Get(number - 1);
}

uint32_t Plan::rungs() const {
  return count(fb::GetPlan(bytes_.data())->rungs());
}

const fb::Tokenizer *Plan::tokenizer() const { return rung(0).tokenizer(); }

Status Plan::chooseNamed(uint32_t number) {
  if (number > 0 && rungs() == 0)
    return Status(StatusCode::Usage,
                  path_ + ": is one plan without rungs; leave out --rung");
  if (number > rungs())
    return Status(StatusCode::Usage,
                  fmt::format("{}: has {} rungs, and --rung is {}; moec "
                              "explain lists them",
                              path_, rungs(), number));
  if (number > 0)
    choose(number);
  return Status::ok();
}

std::string Plan::rungName() const {
  return chosen_ == 0 ? "" : fmt::format("rung {} of {}", chosen_, rungs());
}

uint64_t Plan::fingerprint() const { return hash64({bytes_}) + chosen_; }

Status Plan::checkMachine(std::span<const std::string> modelPaths) const {
  const fb::Plan &plan = table();
  auto wrong = [&](std::string message) {
    return Status(StatusCode::WrongMachine, path_ + ": " + message)
        .suggesting(recompile(Suggestion::ForThisMachine, plan, path_,
                              {{"--target", "native"}}, modelPaths));
  };
  for (uint32_t i = 0; i < count(plan.devices()); ++i) {
    const fb::Device *device = plan.devices()->Get(i);
    if (device->kind() == fb::DeviceKind::Cuda)
      continue; // makeDevices() asks the GPU's driver.
    std::string_view refusal =
        moek::hostRefusal(*moek::isaFromName(text(device->isa())));
    if (!refusal.empty())
      return wrong(fmt::format("target {} needs a CPU with {}, {}",
                               quoted(text(plan.target())), text(device->isa()),
                               refusal));
  }
  return Status::ok();
}

} // namespace moert
