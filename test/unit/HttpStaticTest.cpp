// Files that are part of the program.

#include "HttpTestServer.h"
#include "runtime/serve/http/ServerPage.h"
#include "test/support/TempDir.h"

#include <fstream>
#include <gmock/gmock.h>
#include <iterator>
#include <zlib.h>

namespace moert {
// Generated from the folder HttpPage.
extern const std::span<const StaticFile> testPage;
} // namespace moert

using moert::HttpSettings;
using moert::StaticFile;
using moert::testPage;
using moetest::HttpClient;
using moetest::HttpResponse;
using moetest::TestServer;

namespace {

std::string source(const std::string &name) {
  std::ifstream file(MOE_TEST_PAGE "/" + name, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string unpacked(std::string_view gzip) {
  std::string result(1 << 20, '\0');
  z_stream stream = {};
  inflateInit2(&stream, 15 + 16);
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(gzip.data()));
  stream.avail_in = uInt(gzip.size());
  stream.next_out = reinterpret_cast<Bytef *>(result.data());
  stream.avail_out = uInt(result.size());
  int error = inflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  inflateEnd(&stream);
  return error == Z_STREAM_END ? result : "not gzip";
}

TEST(HttpStaticTest, FilesAreThoseOfTheFolder) {
  std::vector<std::string_view> paths;
  for (const StaticFile &file : testPage)
    paths.push_back(file.path);
  EXPECT_THAT(paths, testing::UnorderedElementsAre("/", "/index.html",
                                                   "/page.js", "/sub/odd.txt",
                                                   "/lib/licence.txt"));
  const StaticFile *index = moert::findStatic(testPage, "/");
  ASSERT_NE(index, nullptr);
  EXPECT_EQ(index->bytes, source("index.html"));
  EXPECT_EQ(index->contentType, "text/html; charset=utf-8");
  EXPECT_EQ(index->gzip, ""); // The file is too short for compression.
  const StaticFile *script = moert::findStatic(testPage, "/page.js");
  ASSERT_NE(script, nullptr);
  EXPECT_EQ(script->bytes, source("page.js"));
  EXPECT_EQ(script->contentType, "text/javascript; charset=utf-8");
  EXPECT_EQ(unpacked(script->gzip), source("page.js"));
  const StaticFile *odd = moert::findStatic(testPage, "/sub/odd.txt");
  ASSERT_NE(odd, nullptr);
  EXPECT_EQ(odd->bytes, source("sub/odd.txt"));
  EXPECT_EQ(moert::findStatic(testPage, "/none"), nullptr);
}

TEST(HttpStaticTest, AFileIsServedAndAskedForAgain) {
  HttpSettings settings;
  settings.files = testPage;
  TestServer server(settings);
  HttpClient client = server.client();
  HttpResponse plain = client.request("GET", "/page.js");
  EXPECT_EQ(plain.status, 200);
  EXPECT_EQ(plain.body, source("page.js"));
  EXPECT_EQ(plain.header("content-encoding"), "");
  EXPECT_EQ(plain.header("cache-control"), "no-cache");
  EXPECT_EQ(plain.header("vary"), "Accept-Encoding");
  EXPECT_EQ(plain.header("x-content-type-options"), "nosniff");
  EXPECT_THAT(plain.header("content-security-policy"),
              testing::StartsWith("default-src 'none'; script-src 'self'"));

  HttpResponse packed = client.request("GET", "/page.js?v=1", "",
                                       {{"Accept-Encoding", "br, gzip"}});
  EXPECT_EQ(packed.header("content-encoding"), "gzip");
  EXPECT_EQ(unpacked(packed.body), source("page.js"));

  HttpResponse known = client.request(
      "GET", "/page.js", "", {{"If-None-Match", plain.header("etag")}});
  EXPECT_EQ(known.status, 304);
  EXPECT_EQ(known.header("etag"), plain.header("etag"));
  EXPECT_EQ(client.request("HEAD", "/").header("content-length"),
            std::to_string(source("index.html").size()));
  EXPECT_EQ(client.request("GET", "/").body, source("index.html"));
  // Other paths go to the handler.
  EXPECT_EQ(client.request("GET", "/README.md").body, "GET /README.md ");
  EXPECT_EQ(client.request("POST", "/page.js", "x").status, 405);
}

TEST(HttpStaticTest, CompressionIsByTheClientsWish) {
  for (const char *value :
       {"gzip", "GZIP", "br;q=1.0, gzip;q=0.8, *;q=0.1", "*", "deflate, gzip"})
    EXPECT_TRUE(moert::acceptsGzip(value)) << value;
  for (const char *value : {"", "br", "gzip;q=0", "gzip;q=0.000, br",
                            "*, gzip;q=0", "x-gzip2", "identity"})
    EXPECT_FALSE(moert::acceptsGzip(value)) << value;
}

TEST(HttpStaticTest, TagsAreCompared) {
  EXPECT_TRUE(moert::namesTag("\"a\"", "\"a\""));
  EXPECT_TRUE(moert::namesTag("\"b\", W/\"a\"", "\"a\""));
  EXPECT_TRUE(moert::namesTag("*", "\"a\""));
  EXPECT_FALSE(moert::namesTag("\"b\"", "\"a\""));
  EXPECT_FALSE(moert::namesTag("", "\"a\""));
}

// The files must link, whatever is in the folder.
TEST(HttpStaticTest, TheServersPageIsPartOfTheProgram) {
  for (const StaticFile &file : moert::serverPage)
    EXPECT_EQ(file.path.front(), '/');
}

} // namespace
