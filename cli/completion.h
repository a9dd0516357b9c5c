// Shell completion scripts, made from the command line's own definition.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace warpsmith::cli {

// A script that completes sub-commands, long flags and, for positional files, file names.
// shell: "bash", "zsh" or "fish".
std::string CompletionScript(const CLI::App& app, const std::string& shell);

}  // namespace warpsmith::cli
