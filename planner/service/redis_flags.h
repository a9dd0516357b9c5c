// The flags that name a Redis store, of every program that opens one.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "common/base/file.h"
#include "common/store/redis/redis_store.h"

namespace warpsmith::planner {

struct RedisFlags {
  store::RedisStore::Options options;
  std::string password_file;

  bool given() const { return !options.server.address.empty(); }

  void AddTo(CLI::App& app) {
    app.add_option("--redis", options.server.address,
                   "127.0.0.1:PORT or unix:/path of the Redis that planners share");
    app.add_option("--shared", options.folder,
                   "with --redis: the folder that they share, for what is large")
        ->needs("--redis");
    app.add_option("--cluster", options.cluster,
                   "with --redis: whose planners these are, of several in one Redis")
        ->needs("--redis")
        ->capture_default_str();
    app.add_option("--redis-user", options.server.user, "of the server's access list")
        ->needs("--redis");
    app.add_option("--redis-password-file", password_file, "a file with nothing else in it")
        ->needs("--redis");
    app.add_flag("--accept-loss", options.accept_loss,
                 "go on with settings of Redis that may lose what it has answered for")
        ->needs("--redis");
  }

  // With the password read. InvalidArgument says which flag is missing or wrong.
  absl::StatusOr<store::RedisStore::Options> Read() const {
    if (options.folder.empty()) {
      return absl::InvalidArgumentError(
          "--redis wants --shared: the folder that all planners of the store reach");
    }
    store::RedisStore::Options read = options;
    if (password_file.empty()) return read;
    absl::StatusOr<std::string> password = base::ReadFile(password_file);
    if (!password.ok()) return absl::InvalidArgumentError(password.status().message());
    read.server.password = std::string(absl::StripAsciiWhitespace(*password));
    return read;
  }
};

}  // namespace warpsmith::planner
