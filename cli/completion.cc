#include "cli/completion.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace warpsmith::cli {
namespace {

std::vector<std::string> LongFlags(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

std::vector<const CLI::App*> Subcommands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> Names(const std::vector<const CLI::App*>& apps) {
  std::vector<std::string> names;
  for (const CLI::App* app : apps) names.push_back(app->get_name());
  return names;
}

// A line `case WORD) choices=...` for each sub-command, which itself may have sub-commands.
std::string WordCases(const CLI::App& app) {
  std::string cases;
  for (const CLI::App* sub : Subcommands(app)) {
    std::vector<std::string> words = Names(Subcommands(*sub));
    for (const std::string& flag : LongFlags(*sub)) words.push_back(flag);
    for (const CLI::App* inner : Subcommands(*sub)) {
      for (const std::string& flag : LongFlags(*inner)) words.push_back(flag);
    }
    for (const std::string& flag : LongFlags(app)) words.push_back(flag);
    absl::StrAppend(&cases, "    ", sub->get_name(), ") choices=\"", absl::StrJoin(words, " "),
                    "\" ;;\n");
  }
  return cases;
}

std::string Bash(const CLI::App& app) {
  return absl::StrCat(
      "_warpsmith() {\n"
      "  local word current=${COMP_WORDS[COMP_CWORD]} choices=\"",
      absl::StrJoin(Names(Subcommands(app)), " "), " ", absl::StrJoin(LongFlags(app), " "),
      "\"\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case $word in\n",
      WordCases(app),
      "    esac\n"
      "  done\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$choices\" -- \"$current\")\n"
      "}\n"
      "complete -o default -F _warpsmith warpsmith\n");
}

// zsh runs bash's completion functions (in which its own variable `words` must be left alone).
std::string Zsh(const CLI::App& app) {
  return "autoload -U +X bashcompinit && bashcompinit\n" +
         absl::StrReplaceAll(Bash(app),
                             {{"mapfile -t COMPREPLY < <(compgen -W \"$choices\" -- "
                               "\"$current\")",
                               "COMPREPLY=($(compgen -W \"$choices\" -- \"$current\"))"}});
}

std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

void FishFlags(const CLI::App& app, const std::string& when, std::string& script) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      absl::StrAppend(&script, "complete -c warpsmith", when, " -l ", name, " -d ",
                      Quoted(option->get_description()), "\n");
    }
  }
}

std::string Fish(const CLI::App& app) {
  std::string script;
  FishFlags(app, "", script);
  for (const CLI::App* sub : Subcommands(app)) {
    absl::StrAppend(&script, "complete -c warpsmith -n __fish_use_subcommand -f -a ",
                    sub->get_name(), " -d ", Quoted(sub->get_description()), "\n");
    const std::string seen =
        absl::StrCat(" -n '__fish_seen_subcommand_from ", sub->get_name(), "'");
    FishFlags(*sub, seen, script);
    for (const CLI::App* inner : Subcommands(*sub)) {
      absl::StrAppend(&script, "complete -c warpsmith", seen, " -a ", inner->get_name(), " -d ",
                      Quoted(inner->get_description()), "\n");
      FishFlags(*inner, seen, script);
    }
  }
  return script;
}

}  // namespace

std::string CompletionScript(const CLI::App& app, const std::string& shell) {
  if (shell == "zsh") return Zsh(app);
  if (shell == "fish") return Fish(app);
  return Bash(app);
}

}  // namespace warpsmith::cli
