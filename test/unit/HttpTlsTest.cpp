// TLS, keys and origins over the wire, and their reload.

#include "HttpTestServer.h"
#include "test/support/TempDir.h"

#include <gmock/gmock.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

using moert::HttpServer;
using moert::HttpSettings;
using moert::StatusCode;
using moetest::HttpClient;
using moetest::HttpResponse;
using moetest::TestServer;
using testing::HasSubstr;

namespace {

/// Writes a certificate for itself and its key.
struct Certificate {
  Certificate(const moetest::TempDir &folder, const std::string &name)
      : certificate(folder.file(name + ".pem")),
        key(folder.file(name + ".key")) {
    std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY *)> pair(EVP_EC_gen("P-256"),
                                                         EVP_PKEY_free);
    std::unique_ptr<X509, void (*)(X509 *)> x509(X509_new(), X509_free);
    X509_set_version(x509.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x509.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(x509.get()), 0);
    X509_gmtime_adj(X509_getm_notAfter(x509.get()), 3600);
    X509_set_pubkey(x509.get(), pair.get());
    X509_NAME *subject = X509_get_subject_name(x509.get());
    X509_NAME_add_entry_by_txt(
        subject, "CN", MBSTRING_ASC,
        reinterpret_cast<const unsigned char *>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(x509.get(), subject);
    X509_sign(x509.get(), pair.get(), EVP_sha256());
    FILE *file = fopen(certificate.c_str(), "w");
    PEM_write_X509(file, x509.get());
    fclose(file);
    file = fopen(key.c_str(), "w");
    PEM_write_PrivateKey(file, pair.get(), nullptr, nullptr, 0, nullptr,
                         nullptr);
    fclose(file);
    chmod(key.c_str(), 0600);
  }
  std::string certificate, key;
};

HttpSettings tlsSettings(const Certificate &certificate) {
  HttpSettings settings;
  settings.certificateFile = certificate.certificate;
  settings.certificateKeyFile = certificate.key;
  return settings;
}

TEST(HttpTlsTest, ServesOverTls) {
  moetest::TempDir folder;
  Certificate certificate(folder, "one");
  TestServer server(tlsSettings(certificate));
  EXPECT_THAT(server->addresses()[0], testing::StartsWith("https://"));
  HttpClient client = server.client(
      {.isTls = true, .certificateFile = certificate.certificate});
  std::string body(3'000'000, 'x');
  EXPECT_EQ(client.request("POST", "/x", body).body, "POST /x " + body);
  client.send(HttpClient::requestText("GET", "/hold"));
  auto answer = server.held();
  answer->begin(200, "text/event-stream");
  answer->write("data: x\n\n");
  client.receiveHead();
  EXPECT_EQ(client.nextChunk(), "data: x\n\n");
  answer->end();
  EXPECT_EQ(client.nextChunk(), std::nullopt);
  EXPECT_EQ(client.request("GET", "/", "", {{"Connection", "close"}}).status,
            200);
  EXPECT_EQ(client.receiveToEnd(), "");
}

TEST(HttpTlsTest, TheHandlerIsToldThatATlsClientLeft) {
  moetest::TempDir folder;
  TestServer server(tlsSettings(Certificate(folder, "one")));
  size_t index = 0;
  for (bool reset : {false, true})
    for (bool begun : {false, true}) {
      HttpClient client = server.client({.isTls = true});
      client.send(HttpClient::requestText("GET", "/hold"));
      auto answer = server.held(index++);
      auto gone = std::make_shared<moetest::Event>();
      answer->onGone([gone] { gone->set(); });
      if (begun) {
        answer->begin(200, "text/event-stream", {}, ": ping\n\n");
        client.receiveHead();
      }
      client.close(reset);
      EXPECT_TRUE(gone->wait()) << reset << begun;
    }
}

TEST(HttpTlsTest, AClientWithoutTlsGetsNothing) {
  moetest::TempDir folder;
  TestServer server(tlsSettings(Certificate(folder, "one")));
  HttpClient client = server.client();
  client.send(HttpClient::requestText("GET", "/x"));
  EXPECT_EQ(client.receive().status, 0);
  EXPECT_EQ(server->counts().requests, 0u);
}

TEST(HttpTlsTest, ASilentClientDoesNotKeepItsPlace) {
  moetest::TempDir folder;
  HttpSettings settings = tlsSettings(Certificate(folder, "one"));
  settings.limits.headerTime = std::chrono::milliseconds(30);
  TestServer server(settings);
  HttpClient client = server.client();
  EXPECT_EQ(client.receiveToEnd(), "");
}

TEST(HttpTlsTest, AReloadBringsANewCertificate) {
  moetest::TempDir folder;
  Certificate first(folder, "first"), second(folder, "second");
  TestServer server(tlsSettings(first));
  HttpClient old =
      server.client({.isTls = true, .certificateFile = first.certificate});
  EXPECT_EQ(old.request("GET", "/x").status, 200);

  rename(second.key.c_str(), first.key.c_str());
  // The key does not fit yet: all stays as it was.
  auto status = server->reload();
  EXPECT_EQ(status.code(), StatusCode::InvalidFile);
  EXPECT_THAT(status.message(), HasSubstr(first.key));
  server.client({.isTls = true, .certificateFile = first.certificate});

  rename(second.certificate.c_str(), first.certificate.c_str());
  status = server->reload();
  EXPECT_TRUE(status.isOk()) << status.message();
  HttpClient fresh =
      server.client({.isTls = true, .certificateFile = first.certificate});
  EXPECT_EQ(fresh.request("GET", "/x").status, 200);
  EXPECT_EQ(old.request("GET", "/x").status, 200);
}

TEST(HttpTlsTest, ErrorsNameTheFile) {
  moetest::TempDir folder;
  Certificate one(folder, "one");
  auto failure = [&](HttpSettings settings) {
    settings.port = 0;
    auto server = HttpServer::create(settings, [](auto, auto) {});
    return server.status();
  };
  HttpSettings settings = tlsSettings(one);
  settings.certificateFile = folder.file("none");
  EXPECT_EQ(failure(settings).code(), StatusCode::Io);
  EXPECT_THAT(failure(settings).message(), HasSubstr(folder.file("none")));

  settings = tlsSettings(one);
  settings.certificateFile = folder.write("text", "no certificate");
  EXPECT_EQ(failure(settings).code(), StatusCode::InvalidFile);
  EXPECT_THAT(failure(settings).message(),
              HasSubstr(folder.file("text") + ": no certificate in PEM form"));

  settings = tlsSettings(one);
  settings.certificateKeyFile = one.certificate;
  EXPECT_THAT(failure(settings).message(),
              HasSubstr(one.certificate + ": no private key in PEM form"));

  settings.certificateKeyFile = "";
  EXPECT_EQ(failure(settings).code(), StatusCode::Usage);
  EXPECT_THAT(failure(settings).message(), HasSubstr("--tls-key"));
}

TEST(HttpAccessTest, RefusalsHaveTheBodyThatSettingsGive) {
  moetest::TempDir folder;
  HttpSettings settings;
  settings.apiKeyFile = folder.write("keys", "alice:sk-one\n");
  chmod(settings.apiKeyFile.c_str(), 0600);
  settings.errorBody = [](std::string_view path, int status,
                          std::string_view message) {
    return std::string(path) + " " + std::to_string(status) + " " +
           std::string(message);
  };
  TestServer server(settings, [](moert::HttpRequest, auto answer) {
    answer->send(200, "text/plain", "");
  });
  HttpResponse refused = server.client().request("GET", "/v1/models");
  EXPECT_EQ(refused.body, "/v1/models 401 this server asks for a key; send it "
                          "in the header \"Authorization: Bearer KEY\" or "
                          "\"x-api-key: KEY\"");
}

TEST(HttpAccessTest, KeysAreAskedForAndReloaded) {
  moetest::TempDir folder;
  HttpSettings settings;
  settings.apiKeyFile = folder.write("keys", "alice:sk-one\n");
  chmod(settings.apiKeyFile.c_str(), 0600);
  std::string client;
  TestServer server(settings, [&](moert::HttpRequest request, auto answer) {
    client = request.client;
    answer->send(200, "text/plain", "");
  });
  EXPECT_TRUE(server->warnings().empty());
  HttpClient connection = server.client();
  HttpResponse refused = connection.request("GET", "/v1/models");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.header("www-authenticate"), "Bearer realm=\"moert\"");
  EXPECT_EQ(refused.header("connection"), "");
  auto status = [&](std::string key) {
    return connection
        .request("GET", "/v1/models", "", {{"Authorization", "Bearer " + key}})
        .status;
  };
  EXPECT_EQ(status("sk-one"), 200);
  EXPECT_EQ(client, "alice");
  EXPECT_EQ(status("sk-two"), 401);
  EXPECT_EQ(connection.request("GET", "/health").status, 200);
  // The body of a refused request is not waited for.
  connection.send("POST /v1/x HTTP/1.1\r\nHost: localhost\r\n"
                  "Content-Length: 1000\r\n\r\n");
  EXPECT_EQ(connection.receive().status, 401);
  connection = server.client();

  folder.write("keys", "bad key");
  EXPECT_EQ(server->reload().code(), StatusCode::InvalidFile);
  folder.write("keys", "");
  EXPECT_EQ(server->reload().code(), StatusCode::InvalidFile);
  EXPECT_EQ(status("sk-one"), 200);
  folder.write("keys", "sk-two");
  EXPECT_TRUE(server->reload().isOk());
  EXPECT_EQ(status("sk-one"), 401);
  EXPECT_EQ(status("sk-two"), 200);
  EXPECT_EQ(client, "key-5e312785");
  chmod(settings.apiKeyFile.c_str(), 0644);
  EXPECT_TRUE(server->reload().isOk());
  EXPECT_EQ(server->warnings().size(), 1u);
}

TEST(HttpAccessTest, KeysMayBeGivenWithoutAFile) {
  moetest::TempDir folder;
  HttpSettings settings;
  settings.apiKeys = {"sk-three", "with:colon"};
  std::string client;
  TestServer server(settings, [&](moert::HttpRequest request, auto answer) {
    client = request.client;
    answer->send(200, "text/plain", "");
  });
  auto status = [&](const moetest::HttpFields &headers) {
    return server.client().request("GET", "/v1/models", "", headers).status;
  };
  EXPECT_EQ(status({}), 401);
  EXPECT_EQ(status({{"Authorization", "Bearer sk-three"}}), 200);
  EXPECT_EQ(client.substr(0, 4), "key-");
  EXPECT_EQ(status({{"x-api-key", "with:colon"}}), 200);
  EXPECT_EQ(status({{"x-api-key", "colon"}}), 401);

  // Keys of the option and of the file together; a key that is in the file
  // keeps its name.
  settings.apiKeyFile = folder.write("keys", "alice:sk-three\nbob:sk-four");
  TestServer both(settings, [&](moert::HttpRequest request, auto answer) {
    client = request.client;
    answer->send(200, "text/plain", "");
  });
  for (auto [key, name] :
       {std::pair("sk-three", "alice"), {"sk-four", "bob"}}) {
    EXPECT_EQ(both.client()
                  .request("GET", "/v1/models", "", {{"x-api-key", key}})
                  .status,
              200);
    EXPECT_EQ(client, name);
  }

  for (const char *wrong : {"", "two words", "\x7f"}) {
    settings.apiKeys = {wrong};
    settings.port = 0;
    auto refused = HttpServer::create(settings, [](auto, auto) {});
    EXPECT_EQ(refused.status().code(), StatusCode::Usage) << wrong;
    EXPECT_THAT(refused.status().message(),
                HasSubstr("--api-key: a key is printable ASCII"));
  }
}

TEST(HttpAccessTest, WithoutKeysOnlyLoopbackIsListenedOn) {
  HttpSettings settings;
  settings.host = "0.0.0.0";
  settings.port = 0;
  auto handler = [](moert::HttpRequest, auto answer) {
    answer->send(200, "text/plain", "");
  };
  auto server = HttpServer::create(settings, handler);
  ASSERT_FALSE(server.isOk());
  EXPECT_EQ(server.status().code(), StatusCode::Usage);
  EXPECT_THAT(server.status().message(), HasSubstr("--api-key-file"));
  EXPECT_THAT(server.status().message(), HasSubstr("--insecure"));
  settings.insecure = true;
  server = HttpServer::create(settings, handler);
  ASSERT_TRUE(server.isOk()) << server.status().message();
  HttpClient client = HttpClient::tcp((*server)->port());
  EXPECT_EQ(client.request("GET", "/", "", {{"Host", "192.168.1.9"}}).status,
            200);
  EXPECT_EQ(client.request("GET", "/", "", {{"Host", "evil.example"}}).status,
            403);

  moetest::TempDir folder;
  settings.insecure = false;
  settings.apiKeyFile = folder.write("keys", "sk-one");
  server = HttpServer::create(settings, handler);
  EXPECT_TRUE(server.isOk()) << server.status().message();

  settings.host = "no.such.host.invalid";
  server = HttpServer::create(settings, handler);
  ASSERT_FALSE(server.isOk());
  EXPECT_EQ(server.status().code(), StatusCode::Usage);
}

TEST(HttpAccessTest, CrossOriginRequestsAreByList) {
  HttpSettings settings;
  settings.allowedOrigins = {"https://ui.example.org"};
  TestServer server(settings);
  HttpClient client = server.client();
  HttpResponse preflight =
      client.request("OPTIONS", "/v1/chat/completions", "",
                     {{"Origin", "https://ui.example.org"},
                      {"Access-Control-Request-Method", "POST"},
                      {"Access-Control-Request-Headers", "content-type"}});
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.header("access-control-allow-origin"),
            "https://ui.example.org");
  EXPECT_EQ(preflight.header("access-control-allow-headers"), "content-type");
  HttpResponse response =
      client.request("POST", "/x", "", {{"Origin", "https://ui.example.org"}});
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.header("access-control-allow-origin"),
            "https://ui.example.org");
  EXPECT_EQ(response.header("vary"), "Origin");
  response =
      client.request("GET", "/x", "", {{"Origin", "https://evil.example"}});
  EXPECT_EQ(response.status, 403);
  EXPECT_EQ(response.header("access-control-allow-origin"), "");
  EXPECT_EQ(client.request("OPTIONS", "/x").header("allow"),
            "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
}

} // namespace
