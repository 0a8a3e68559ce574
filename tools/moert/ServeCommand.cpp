// moert serve: an HTTP server for plans.
#include "compiler/Explain/Explain.h"
#include "runtime/base/ReadInput.h"
#include "runtime/base/Temporaries.h"
#include "runtime/base/Text.h"
#include "runtime/base/WorkQueue.h"
#include "runtime/serve/api/Router.h"
#include "runtime/serve/host/PlanHost.h"
#include "runtime/serve/http/HttpServer.h"
#include "runtime/serve/http/Notify.h"
#include "runtime/serve/http/ServerPage.h"
#include "runtime/serve/http/Words.h"
#include "tools/common/ModelPath.h"
#include "tools/moert/ChatFlags.h"
#include "tools/moert/Commands.h"
#include "tools/moert/ModelPlan.h"
#include "tools/moert/Shared.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <thread>

namespace moert {

namespace {
using Clock = std::chrono::steady_clock;

/// Sequences of a plan that this command compiles.
constexpr int32_t kModelSequences = 4;

struct ServeFlags {
  EngineFlags engine;
  std::string models, alias, pooling, chatTemplate, database,
      think = "auto", speculation = "auto", log = "text";
  nlohmann::ordered_json templateValues = nlohmann::ordered_json::object();
  float idleMinutes = 0, graceSeconds = 30;
  bool publicMetrics = false;
  int32_t port = 8080, maxTokens = -1;
  SchedulerOptions scheduler;
  HttpSettings http;
  SamplerParams sampler;
  CLI::Option *seed = nullptr; ///< The option for the sampler's seed.
};

std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// Signals that end the server or make it read its files again. They are
/// blocked in all threads, and the command's own thread waits for them.
sigset_t serverSignals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGHUP})
    ::sigaddset(&signals, signal);
  return signals;
}

StatusOr<std::vector<NamedPlan>> plansOf(const ServeFlags &flags) {
  if (flags.engine.plan.empty() == flags.models.empty())
    return Status(StatusCode::Usage, "give the model to serve, MODEL.gguf, or "
                                     "with --models a folder of plans");
  if (!flags.models.empty())
    return plansIn(flags.models);
  int32_t wanted = flags.scheduler.sequences;
  EngineFlags engine = flags.engine;
  engine.sequences = wanted > 0 ? wanted : kModelSequences;
  MOE_ASSIGN_OR_RETURN(std::string path,
                       engine.planFile(engine.options.rung.context));
  std::string name = flags.alias;
  if (name.empty())
    name = std::filesystem::path(flags.engine.plan).stem().string();
  return std::vector<NamedPlan>{{name, path}};
}

/// Loads the first plan, so that a plan that cannot run ends the command. A
/// signal ends the process meanwhile, as loading may take minutes.
Status loadFirst(PlanHost &host) {
  auto loaded = std::make_shared<std::promise<Status>>();
  std::future<Status> status = loaded->get_future();
  host.open("", [loaded](StatusOr<std::shared_ptr<Backend>> model) {
    loaded->set_value(model.status());
  });
  const sigset_t signals = serverSignals();
  const timespec noTime = {};
  while (status.wait_for(std::chrono::milliseconds(20)) !=
         std::future_status::ready)
    if (int signal = ::sigtimedwait(&signals, nullptr, &noTime);
        signal == SIGINT || signal == SIGTERM)
      endBySignal(signal);
  return status.get();
}

/// Lets the process open as many files as the system allows: each connection is
/// one, and the usual limit is as low as their number.
void raiseFileLimit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

/// Makes the placement pages of plans, each once.
class PlacementPages {
public:
  explicit PlacementPages(std::vector<NamedPlan> plans)
      : plans_(std::move(plans)) {}

  StatusOr<std::string> page(const std::string &id) {
    std::lock_guard lock(mutex_);
    if (auto made = pages_.find(id); made != pages_.end())
      return made->second;
    auto plan = std::ranges::find(plans_, id, &NamedPlan::id);
    if (plan == plans_.end())
      return Status(StatusCode::Usage, "there is no such model");
    MOE_ASSIGN_OR_RETURN(Plan read, Plan::read(plan->path));
    return pages_[id] = moec::explainHtml(read);
  }

private:
  std::mutex mutex_;
  std::vector<NamedPlan> plans_;
  std::map<std::string, std::string> pages_;
};

/// Serves until a signal ends it.
void serveUntilSignal(HttpServer &server, const ServiceNotifier &service) {
  std::optional<std::chrono::milliseconds> watchdog = watchdogInterval(
      environment("WATCHDOG_USEC"), environment("WATCHDOG_PID"));
  const sigset_t signals = serverSignals();
  std::chrono::milliseconds wait = watchdog.value_or(std::chrono::hours(1));
  timespec time = {.tv_sec = wait.count() / 1000,
                   .tv_nsec = wait.count() % 1000 * 1'000'000};
  while (true) {
    int signal = ::sigtimedwait(&signals, nullptr, &time);
    if (signal == SIGINT || signal == SIGTERM)
      return;
    if (signal == SIGHUP) {
      Status reloaded = server.reload();
      moetool::note("{}\n", reloaded.isOk()
                                ? "read the keys and the certificate again"
                                : moetool::fullMessage(reloaded));
    }
    if (watchdog)
      (void)service.watchdog();
  }
}

/// While an object lives, a signal ends the process at once, for users who do
/// not want to wait until running requests have ended.
class EndAtNextSignal {
private:
  std::jthread thread_{[](std::stop_token stop) {
    const sigset_t signals = serverSignals();
    const timespec time = {.tv_sec = 0, .tv_nsec = 20'000'000};
    while (!stop.stop_requested())
      if (int signal = ::sigtimedwait(&signals, nullptr, &time);
          signal == SIGINT || signal == SIGTERM)
        endBySignal(signal);
  }};
};

Status serve(ServeFlags &flags) {
  flags.http.inheritedSockets =
      activatedSockets(environment("LISTEN_FDS"), environment("LISTEN_PID"));
  MOE_RETURN_IF_ERROR(Sampler::create(flags.sampler).status());
  // Without keys there is one client, which has all of the queue.
  flags.scheduler.queuePerClient = flags.http.asksForKeys()
                                       ? std::max(1, flags.scheduler.queue / 2)
                                       : flags.scheduler.queue;
  if (flags.speculation == "off")
    flags.scheduler.speculation = Speculation::Off;
  PlanHostOptions options{
      .engine = flags.engine.options,
      .scheduler = flags.scheduler,
      .pooling = poolingOf(flags.pooling),
      .idle = std::chrono::milliseconds(int64_t(flags.idleMinutes * 60'000)),
      .loadsFirst = flags.models.empty()};
  options.chat.thinking = thinkingOf(flags.think);
  options.chat.values = flags.templateValues;
  if (!flags.chatTemplate.empty()) {
    MOE_ASSIGN_OR_RETURN(options.chat.source,
                         readInput(flags.chatTemplate, kMostConversationBytes));
    // A mistake in it ends the command, not the loading of a plan.
    if (auto parsed = ChatTemplate::parse(options.chat.source); !parsed)
      return parsed.status().at(inputName(flags.chatTemplate));
  }

  HttpSettings settings = flags.http;
  settings.port = uint16_t(flags.port);
  // What is wrong with the server's own options is told before a model is
  // compiled.
  MOE_RETURN_IF_ERROR(HttpServer::check(settings));
  MOE_ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> store,
                       ObjectStore::open(flags.database));
  MOE_ASSIGN_OR_RETURN(std::vector<NamedPlan> plans, plansOf(flags));
  auto pages = std::make_shared<PlacementPages>(plans);

  // All threads that start from here on leave these signals to this one.
  const sigset_t signals = serverSignals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  MOE_ASSIGN_OR_RETURN(std::unique_ptr<PlanHost> host,
                       PlanHost::create(std::move(plans), options));

  raiseFileLimit();
  settings.files = serverPage;
  settings.errorBody = refusalBody;
  if (flags.publicMetrics)
    settings.publicPaths.push_back("/metrics");
  if (flags.log == "text")
    settings.accessLog = [](const AccessRecord &record) {
      moetool::note("{}\n", accessLine(record));
    };
  else if (flags.log == "json")
    settings.accessLog = [](const AccessRecord &record) {
      moetool::note("{}\n", accessJson(record));
    };
  ApiSettings api{.sampling = flags.sampler,
                  .maxTokens = flags.maxTokens,
                  .version = MOE_VERSION};
  if (moetool::isGiven(flags.seed))
    api.seed = flags.sampler.seed;
  // The work that follows on a scheduler's thread is done here.
  auto later = std::make_shared<WorkQueue>(WorkQueue::Limits());
  api.later = [weak = std::weak_ptr(later)](const std::string &client,
                                            uint64_t bytes,
                                            std::function<void()> job) {
    if (std::shared_ptr<WorkQueue> queue = weak.lock())
      queue->add({client, bytes, std::move(job)});
    else
      job();
  };
  // Requests may come before create() has returned.
  auto listening = std::make_shared<std::atomic<const HttpServer *>>(nullptr);
  api.moreMetrics = [listening] {
    const HttpServer *server = *listening;
    return metricsText(server ? server->counts() : HttpCounts());
  };
  if (flags.log == "text")
    api.log = [](const std::string &line) {
      moetool::note("{}\n", loggedText(line));
    };
  else if (flags.log == "json")
    api.log = [](const std::string &line) {
      moetool::note("{}\n", nlohmann::json{{"note", loggedText(line)}}.dump());
    };
  api.placementPage = [pages](const std::string &id) {
    return pages->page(id);
  };
  api.store = std::move(store);
  MOE_ASSIGN_OR_RETURN(
      std::unique_ptr<HttpServer> server,
      HttpServer::create(std::move(settings), makeApi(*host, api)));
  *listening = server.get();
  if (!flags.http.apiKeys.empty())
    moetool::note("warning: others on this machine see the keys of --api-key "
                  "in the list of processes; --api-key-file FILE hides them\n");
  for (const std::string &warning : server->warnings())
    moetool::note("warning: {}\n", warning);

  ServiceNotifier service(environment("NOTIFY_SOCKET"));
  (void)service.status("loading");
  if (flags.models.empty())
    MOE_RETURN_IF_ERROR(loadFirst(*host));
  std::string names;
  for (const ModelFacts &model : host->models())
    names += (names.empty() ? "" : ", ") + model.id;
  for (const std::string &address : server->addresses())
    moetool::note("serving {} at {}\n", names, address);
  (void)service.ready("serving " + names);

  serveUntilSignal(*server, service);
  auto grace = std::chrono::milliseconds(int64_t(flags.graceSeconds * 1000));
  moetool::note("stopping: running requests have {} to end\n",
                counted(grace.count() / 1000, "second"));
  (void)service.stopping("waiting for running requests");
  const EndAtNextSignal impatience;
  Clock::time_point deadline = Clock::now() + grace;
  host->drain(deadline);
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - Clock::now());
  // Generations that the scheduler has ended still have to reach their clients.
  server->stop(std::max(left, std::chrono::milliseconds(2000)));
  return Status::ok();
}

} // namespace

void addServeCommand(moetool::Tool &tool) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App *command = addEngineCommand(
      tool, "serve",
      "Serve plans over HTTP: the interfaces of OpenAI, Anthropic, "
      "Ollama and llama-server, and a web page",
      flags, serve);
  moetool::addModelPath(*command, rows::servedPlan, flags->engine.plan);
  moetool::addOption(*command, rows::servedModels, flags->models);
  moetool::addOption(*command, rows::alias, flags->alias);
  moetool::addOption(*command, rows::idle, flags->idleMinutes);
  moetool::addOption(*command, rows::host, flags->http.host);
  moetool::addOption(*command, rows::port, flags->port);
  moetool::addOption(*command, rows::unixSocket, flags->http.unixSocket);
  moetool::addOption(*command, rows::tlsCertificate,
                     flags->http.certificateFile);
  moetool::addOption(*command, rows::tlsKey, flags->http.certificateKeyFile);
  moetool::addOption(*command, rows::apiKeyFile, flags->http.apiKeyFile);
  moetool::addReader(*command, rows::apiKeys, [flags](const std::string &text) {
    for (std::string_view key : split(text, ','))
      flags->http.apiKeys.emplace_back(key);
    return Status::ok();
  });
  moetool::addOption(*command, rows::insecure, flags->http.insecure);
  moetool::addOption(*command, rows::publicMetrics, flags->publicMetrics);
  moetool::addOption(*command, rows::allowedHosts, flags->http.allowedHosts);
  moetool::addOption(*command, rows::allowedOrigins,
                     flags->http.allowedOrigins);
  moetool::addOption(*command, rows::servedSequences,
                     flags->scheduler.sequences);
  moetool::addOption(*command, rows::queue, flags->scheduler.queue);
  moetool::addOption(*command, rows::prefillChunk,
                     flags->scheduler.prefillChunk);
  moetool::addOption(*command, rows::speculation, flags->speculation);
  moetool::addOption(*command, rows::cacheFolder, flags->scheduler.storeFolder);
  moetool::addOption(*command, rows::cacheSize, flags->scheduler.storeBytes);
  moetool::addOption(*command, rows::database, flags->database);
  moetool::addOption(*command, rows::grace, flags->graceSeconds);
  flags->seed = addSampling(*command, flags->sampler);
  flags->engine.addThreads(*command);
  flags->engine.addRung(*command);
  flags->engine.addWeights(*command);
  moetool::addOption(*command, rows::servedTemplate, flags->chatTemplate);
  moetool::addReader(
      *command, rows::servedTemplateValues, [flags](const std::string &text) {
        MOE_ASSIGN_OR_RETURN(flags->templateValues, readTemplateValues(text));
        return Status::ok();
      });
  moetool::addOption(*command, rows::servedThink, flags->think);
  moetool::addOption(*command, rows::servedTokens, flags->maxTokens);
  moetool::addOption(*command, rows::pooling, flags->pooling);
  moetool::addOption(*command, rows::accessLog, flags->log);
  flags->engine.addCompile(*command);
}

} // namespace moert
