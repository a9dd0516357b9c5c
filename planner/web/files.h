// The files that a browser loads, from planner/web/files, which are part of the program.
#pragma once

#include <map>
#include <string>

namespace warpsmith::web {

const std::map<std::string, std::string>& PageFiles();  // {"/page.html": its text}

}  // namespace warpsmith::web
