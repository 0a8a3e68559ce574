// Keys, hosts, origins and targets, without a server.

#include "runtime/serve/http/Admission.h"
#include "runtime/serve/http/RequestTarget.h"
#include "runtime/serve/http/Security.h"
#include "test/support/TempDir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

using moert::Admission;
using moert::AdmissionRules;
using moert::HostPort;
using moert::KeyRing;
using moert::RequestHead;
using moert::StatusCode;
using testing::HasSubstr;

namespace {

TEST(HttpSecurityTest, KeysAreOneALineWithOrWithoutAName) {
  auto ring = KeyRing::parse("# Our clients.\n\nalice:sk-one\r\n  sk-two  \n"
                             "bob : a:b\nalice:sk-three");
  ASSERT_TRUE(ring.isOk()) << ring.status().message();
  EXPECT_EQ(ring->size(), 4u);
  auto client = [&](std::string_view key) {
    const KeyRing::Client *found = ring->clientOf(key);
    return found ? found->name : "(none)";
  };
  EXPECT_EQ(client("sk-one"), "alice");
  EXPECT_EQ(client("sk-three"), "alice");
  EXPECT_EQ(client("a:b"), "bob");
  // The name of a key without one is made of its hash: sha256sum gives it too.
  EXPECT_EQ(client("sk-two"), "key-5e312785");
  for (const char *key : {"", "sk-on", "sk-one ", "sk-onee", "SK-ONE", "alice",
                          "alice:sk-one", "# Our clients."})
    EXPECT_EQ(client(key), "(none)") << key;
}

TEST(HttpSecurityTest, AGroupOfKeysIsWrittenAfterItsName) {
  auto ring = KeyRing::parse("alice@team:sk-one\nbob@team:sk-two\n"
                             "team:sk-three\nsk@four\nalice@team:sk-five");
  ASSERT_TRUE(ring.isOk()) << ring.status().message();
  auto groupOf = [&](const char *key) { return ring->clientOf(key)->group; };
  EXPECT_EQ(ring->clientOf("sk-one")->name, "alice");
  EXPECT_EQ(groupOf("sk-one"), "@team");
  EXPECT_EQ(groupOf("sk-two"), "@team");
  EXPECT_EQ(groupOf("sk-five"), "@team");
  // A client that is called like a group is not in it.
  EXPECT_EQ(groupOf("sk-three"), "team");
  EXPECT_EQ(groupOf("sk@four"), ring->clientOf("sk@four")->name);
}

TEST(HttpSecurityTest, ErrorsOfAKeyFileNameTheLineButNoKey) {
  struct {
    const char *text, *message;
  } cases[] = {
      {"", "the file contains no key; write one on a line"},
      {"# nothing\n\n", "the file contains no key; write one on a line"},
      {"good\nbad key", "line 2: a key is printable ASCII without spaces"},
      {"caf\xC3\xA9", "line 1: a key is printable ASCII without spaces"},
      {"alice:", "line 1: a key is printable ASCII without spaces"},
      {"a b:secret", "line 1: the name before \":\", or its group after "
                     "\"@\", is not 1 to 64 letters, digits and \"_.-\""},
      {"a@:secret", "line 1: the name before \":\", or its group after "
                    "\"@\", is not 1 to 64 letters, digits and \"_.-\""},
      {"a@x:one\na@y:two", "line 2: a is in another group above"},
      {"a:secret\n\nb:secret", "line 3: this key is in the file already"},
  };
  for (const auto &[text, message] : cases) {
    auto ring = KeyRing::parse(text);
    ASSERT_FALSE(ring.isOk()) << text;
    EXPECT_EQ(ring.status().code(), StatusCode::InvalidFile);
    EXPECT_EQ(ring.status().message(), message);
  }
}

TEST(HttpSecurityTest, AKeyFileThatOthersCanReadGivesAWarning) {
  moetest::TempDir folder;
  std::string path = folder.write("keys", "sk-one\n");
  chmod(path.c_str(), 0644);
  auto file = moert::readKeyFile(path);
  ASSERT_TRUE(file.isOk());
  EXPECT_THAT(file->warning, HasSubstr("chmod 600 " + path));
  chmod(path.c_str(), 0600);
  file = moert::readKeyFile(path);
  ASSERT_TRUE(file.isOk());
  EXPECT_EQ(file->warning, "");

  folder.write("keys", "bad key");
  EXPECT_EQ(moert::readKeyFile(path).status().message(),
            path + ": line 1: a key is printable ASCII without spaces");
  EXPECT_EQ(moert::readKeyFile(folder.file("none")).status().code(),
            StatusCode::Io);
}

TEST(HttpSecurityTest, HostsAreTakenApart) {
  struct {
    const char *text, *host, *port;
  } cases[] = {{"localhost", "localhost", ""},
               {"LocalHost.:8080", "localhost", "8080"},
               {"127.0.0.1:1", "127.0.0.1", "1"},
               {"[::1]:80", "::1", "80"},
               {"[FE80::1]", "fe80::1", ""},
               {"a.b-c_d", "a.b-c_d", ""}};
  for (const auto &[text, host, port] : cases) {
    auto parsed = moert::parseHost(text);
    ASSERT_TRUE(parsed.isOk()) << text;
    EXPECT_EQ(parsed->host, host);
    EXPECT_EQ(parsed->port, port);
  }
  for (const char *text :
       {"", ".", ":80", "a b", "a/b", "user@host", "a:b", "a:123456", "[::1",
        "[]", "[localhost]", "[127.0.0.1]", "[::1]x", "::1", "a,b"})
    EXPECT_FALSE(moert::parseHost(text).isOk()) << text;
}

TEST(HttpSecurityTest, LoopbackHasManyNames) {
  for (const char *host : {"localhost", "x.localhost", "127.0.0.1", "127.9.9.9",
                           "::1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(moert::isLoopbackHost(host)) << host;
  for (const char *host :
       {"localhost.evil.example", "128.0.0.1", "::2", "0.0.0.0",
        "127.0.0.1.evil.example", "evillocalhost"})
    EXPECT_FALSE(moert::isLoopbackHost(host)) << host;
}

TEST(HttpSecurityTest, HostsThatAServerWithoutKeysAnswersTo) {
  moert::HostRule one{.bound = {"192.168.1.5"}, .allowed = {"Box.local"}};
  EXPECT_TRUE(moert::isHostAllowed(one, "localhost"));
  EXPECT_TRUE(moert::isHostAllowed(one, "192.168.1.5"));
  EXPECT_TRUE(moert::isHostAllowed(one, "box.local"));
  EXPECT_FALSE(moert::isHostAllowed(one, "192.168.1.6"));
  EXPECT_FALSE(moert::isHostAllowed(one, "evil.example"));
  for (const char *every : {"0.0.0.0", "::"}) {
    moert::HostRule all{.bound = {every}, .allowed = {}};
    EXPECT_TRUE(moert::isHostAllowed(all, "192.168.1.6"));
    EXPECT_TRUE(moert::isHostAllowed(all, "fe80::1"));
    EXPECT_FALSE(moert::isHostAllowed(all, "evil.example"));
  }
}

TEST(HttpSecurityTest, AnOriginIsTheSameByHostAndPort) {
  auto same = [](std::string_view origin, std::string_view host) {
    return moert::isSameOrigin(origin, *moert::parseHost(host));
  };
  EXPECT_TRUE(same("http://localhost:8080", "localhost:8080"));
  EXPECT_TRUE(same("HTTP://LOCALHOST:8080", "localhost:8080"));
  EXPECT_TRUE(same("https://chat.example.org", "chat.example.org"));
  EXPECT_TRUE(same("https://chat.example.org", "chat.example.org:443"));
  EXPECT_TRUE(same("http://[::1]:8080", "[::1]:8080"));
  EXPECT_FALSE(same("http://localhost:8081", "localhost:8080"));
  EXPECT_FALSE(same("http://localhost", "localhost:8080"));
  EXPECT_FALSE(same("http://127.0.0.1:8080", "localhost:8080"));
  EXPECT_FALSE(same("http://localhost.evil.example:8080", "localhost:8080"));
  EXPECT_FALSE(same("null", "localhost:8080"));
  EXPECT_FALSE(same("localhost:8080", "localhost:8080"));
  EXPECT_FALSE(same("file://localhost:8080", "localhost:8080"));
}

/// A request and what becomes of it.
struct Case {
  const char *what, *method, *path;
  moert::HeaderMap headers;
  int status; ///< Expected status; 0: the request may be answered.
  const char *client = "";
};

void check(const AdmissionRules &rules, const KeyRing *keys,
           std::initializer_list<Case> cases) {
  for (const Case &entry : cases) {
    SCOPED_TRACE(entry.what);
    RequestHead head;
    head.method = entry.method;
    head.headers = entry.headers;
    head.headers.emplace("host", "localhost:8080");
    auto target = moert::parseTarget(entry.path);
    ASSERT_TRUE(target.isOk());
    Admission admission =
        moert::admit(rules, keys, head, *target, target->path == "/");
    EXPECT_EQ(admission.refusal ? admission.refusal->status : 0, entry.status)
        << (admission.refusal ? admission.refusal->message : "");
    EXPECT_EQ(admission.client, entry.client);
  }
}

TEST(HttpSecurityTest, KeysAreAskedFor) {
  auto keys = KeyRing::parse("alice:sk-one\nbob:sk-two");
  ASSERT_TRUE(keys.isOk());
  check({.hosts = {}, .allowedOrigins = {}, .publicPaths = {"/health"}}, &*keys,
        {{"bearer",
          "GET",
          "/v1/models",
          {{"authorization", "Bearer sk-one"}},
          0,
          "alice"},
         {"any case of the scheme",
          "GET",
          "/v1/models",
          {{"authorization", "bearer  sk-one"}},
          0,
          "alice"},
         {"as Anthropic's clients do",
          "GET",
          "/v1/models",
          {{"x-api-key", "sk-two"}},
          0,
          "bob"},
         {"as Azure's clients do",
          "GET",
          "/v1/models",
          {{"api-key", "sk-two"}},
          0,
          "bob"},
         {"one of two is known",
          "GET",
          "/v1/models",
          {{"authorization", "Bearer none"}, {"x-api-key", "sk-two"}},
          0,
          "bob"},
         {"none", "GET", "/v1/models", {}, 401},
         {"an unknown one",
          "GET",
          "/v1/models",
          {{"authorization", "Bearer sk-three"}},
          401},
         {"another scheme",
          "GET",
          "/v1/models",
          {{"authorization", "Basic sk-one"}},
          401},
         {"an empty one",
          "GET",
          "/v1/models",
          {{"authorization", "Bearer "}},
          401},
         {"a public path", "GET", "/health", {}, 0},
         {"a public path with a key",
          "GET",
          "/health",
          {{"api-key", "sk-two"}},
          0,
          "bob"},
         {"below a public path", "GET", "/health/x", {}, 401},
         {"a static file", "GET", "/", {}, 0},
         {"a static file is not written", "POST", "/", {}, 405},
         {"any host", "GET", "/health", {{"host", "chat.example.org"}}, 0}});
}

TEST(HttpSecurityTest, WithoutKeysTheHostCounts) {
  check({.hosts = {.bound = {"127.0.0.1"}, .allowed = {"box"}},
         .allowedOrigins = {},
         .publicPaths = {}},
        nullptr,
        {{"loopback", "GET", "/x", {{"host", "127.0.0.1:8080"}}, 0},
         {"allowed", "GET", "/x", {{"host", "box:8080"}}, 0},
         {"a name that was rebound",
          "GET",
          "/x",
          {{"host", "evil.example:8080"}},
          403},
         {"for the page too", "GET", "/", {{"host", "evil.example:8080"}}, 403},
         {"another address", "GET", "/x", {{"host", "10.0.0.1:8080"}}, 403},
         {"in the request line", "GET", "http://evil.example/x", {}, 403},
         {"no host at all", "GET", "/x", {{"host", ""}}, 400}});
}

TEST(HttpSecurityTest, PagesOfOtherOriginsAreRefused) {
  for (const char *method : {"GET", "POST", "OPTIONS", "DELETE"})
    check({.hosts = {},
           .allowedOrigins = {"https://ui.example.org"},
           .publicPaths = {"/health"}},
          nullptr,
          {{"its own page",
            method,
            "/x",
            {{"origin", "http://localhost:8080"}},
            0},
           {"a listed one",
            method,
            "/x",
            {{"origin", "https://ui.example.org"}},
            0},
           {"another one",
            method,
            "/x",
            {{"origin", "https://evil.example"}},
            403},
           {"another port",
            method,
            "/x",
            {{"origin", "http://localhost:3000"}},
            403},
           {"a listed name without TLS",
            method,
            "/x",
            {{"origin", "http://ui.example.org"}},
            403},
           {"a file", method, "/x", {{"origin", "null"}}, 403},
           {"on a public path",
            method,
            "/health",
            {{"origin", "https://evil.example"}},
            403},
           {"of a file that is read by other pages",
            "GET",
            "/",
            {{"origin", "https://evil.example"}},
            0},
           {"whose answer the page does not read",
            method,
            "/props",
            {{"sec-fetch-site", "cross-site"}, {"sec-fetch-mode", "no-cors"}},
            403},
           {"a link to the page",
            "GET",
            "/",
            {{"sec-fetch-site", "cross-site"}, {"sec-fetch-mode", "navigate"}},
            0},
           {"by its own page",
            method,
            "/props",
            {{"sec-fetch-site", "same-origin"}},
            0}});
  check({.hosts = {}, .allowedOrigins = {"*"}, .publicPaths = {}}, nullptr,
        {{"every one", "POST", "/x", {{"origin", "https://any.example"}}, 0},
         {"a file", "POST", "/x", {{"origin", "null"}}, 0}});
}

TEST(HttpSecurityTest, OnlyListedOriginsMayReadAnswers) {
  AdmissionRules rules;
  rules.allowedOrigins = {"https://ui.example.org"};
  auto target = moert::parseTarget("/x");
  RequestHead head;
  head.method = "OPTIONS";
  head.headers = {{"host", "localhost"},
                  {"origin", "https://ui.example.org"},
                  {"access-control-request-method", "POST"},
                  {"access-control-request-headers", "authorization,x-thing"}};
  auto keys = KeyRing::parse("sk-one");
  // A preflight never has a key.
  Admission admission = moert::admit(rules, &*keys, head, *target, false);
  EXPECT_FALSE(admission.refusal);
  EXPECT_TRUE(admission.isOptions);
  std::map<std::string, std::string> headers(admission.headers.begin(),
                                             admission.headers.end());
  EXPECT_EQ(headers["Access-Control-Allow-Origin"], "https://ui.example.org");
  EXPECT_EQ(headers["Access-Control-Allow-Headers"], "authorization,x-thing");
  EXPECT_THAT(headers["Access-Control-Allow-Methods"], HasSubstr("DELETE"));
  EXPECT_EQ(headers["Vary"], "Origin");

  // An error can be read too.
  head.method = "POST";
  admission = moert::admit(rules, &*keys, head, *target, false);
  ASSERT_TRUE(admission.refusal);
  EXPECT_EQ(admission.refusal->status, 401);
  EXPECT_EQ(admission.headers[1].first, "Access-Control-Allow-Origin");

  head.headers["origin"] = "http://localhost";
  head.headers["access-control-request-headers"] = "x\"y";
  head.method = "OPTIONS";
  admission = moert::admit(rules, nullptr, head, *target, false);
  EXPECT_FALSE(admission.refusal);
  for (const auto &[name, value] : admission.headers)
    EXPECT_EQ(name.find("Access-Control"), std::string::npos) << name;
}

} // namespace
