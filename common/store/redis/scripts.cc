#include "common/store/redis/scripts.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace warpsmith::store::redis {
namespace {

// Names for what is given, and the two guards.
constexpr char kPrologue[] = R"lua(
local meta, log, state, staged, archive, archived, blobs, facts, files, unnamed =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local function get(field) return redis.call('HGET', meta, field) end
local function set(...) redis.call('HSET', meta, ...) end
local function add(field, number) return redis.call('HINCRBY', meta, field, number) end
local function refuse(what) return redis.error_reply(what) end
)lua";

constexpr char kSameStore[] = R"lua(
local id = get('id')
if id ~= ARGV[1] then return refuse('OTHERSTORE ' .. (id or 'none')) end
)lua";

constexpr char kWriter[] = R"lua(
local epoch = get('epoch')
if epoch ~= ARGV[2] then return refuse('STALE ' .. epoch) end
local lost = get('lost')
if lost then return refuse('LOST ' .. lost) end
)lua";

constexpr char kFirst[] = R"lua(
local function begin(schema, id, generation, epoch, file)
  set('schema', schema, 'id', id, 'generation', generation, 'epoch', epoch, 'beat', 0, 'leader', '',
      'last', 0, 'last_sum', 0, 'batch', '', 'first', 0, 'first_sum', 0, 'checkpoint', 0,
      'entries', 0, 'archive', 0, 'file', file, 'facts', 0, 'facts_bytes', 0, 'facts_forgotten', 0,
      'facts_oldest', 0, 'saved', 0)
end
)lua";

constexpr char kOpen[] = R"lua(
if redis.call('EXISTS', meta) == 0 then begin(ARGV[2], ARGV[1], 1, 0, 0) end
return redis.call('HMGET', meta, 'schema', 'id', 'file', 'generation')
)lua";

constexpr char kLead[] = R"lua(
if ARGV[2] ~= '' and (ARGV[2] ~= get('epoch') or ARGV[3] ~= get('beat')) then
  return refuse('STALE ' .. get('epoch'))
end
if get('lost') then return refuse('LOST ' .. get('lost')) end
if get('emptied') then return refuse('EMPTIED store') end
set('beat', 0, 'leader', ARGV[4])
return add('epoch', 1)
)lua";

constexpr char kBeat[] = R"lua(
set('leader', ARGV[3])
add('beat', 1)
return get('last')
)lua";

constexpr char kLose[] = R"lua(
if get('generation') == ARGV[2] then set('lost', ARGV[3]) end
return 1
)lua";

constexpr char kFile[] = R"lua(
return add('file', 1)
)lua";

constexpr char kBefore[] = R"lua(
local subjects, digests = tonumber(ARGV[3]), tonumber(ARGV[4])
local places, there = {}, {}
for i = 1, subjects do places[i] = redis.call('HGET', facts, ARGV[4 + i]) or '' end
for i = 1, digests do there[i] = redis.call('HEXISTS', blobs, ARGV[4 + subjects + i]) end
return {get('last'), get('last_sum'), get('batch'), places, there}
)lua";

constexpr char kCommit[] = R"lua(
local last = get('last')
if last ~= ARGV[3] then
  if ARGV[4] ~= '' and get('batch') == ARGV[4] then return get('facts_bytes') end
  return refuse('PLACE ' .. last)
end
local at = 13
local after = tonumber(ARGV[3])
for i = 1, tonumber(ARGV[7]) do
  redis.call('XADD', log, (after + i) .. '-' .. epoch, 's', ARGV[at], 'b', ARGV[at + 1])
  at = at + 2
end
if ARGV[5] ~= ARGV[3] then set('last', ARGV[5], 'last_sum', ARGV[6], 'batch', ARGV[4]) end
for i = 1, tonumber(ARGV[8]) do
  if ARGV[at + 1] ~= '' then redis.call('HSETNX', blobs, ARGV[at], ARGV[at + 1]) end
  redis.call('HDEL', unnamed, ARGV[at])
  at = at + 2
end
for i = 1, tonumber(ARGV[9]) do
  redis.call('HSET', facts, ARGV[at], ARGV[at + 1])
  at = at + 2
end
if ARGV[12] ~= '0' then
  redis.call('HINCRBY', files, ARGV[10] .. ':n', ARGV[12])
  redis.call('HINCRBY', files, ARGV[10] .. ':b', ARGV[11])
  add('facts', ARGV[12])
  return add('facts_bytes', ARGV[11])
end
return get('facts_bytes')
)lua";

constexpr char kRead[] = R"lua(
return {get('first'), get('first_sum'), get('last'),
        redis.call('XRANGE', log, ARGV[2], '+', 'COUNT', ARGV[3])}
)lua";

constexpr char kPut[] = R"lua(
redis.call('HDEL', unnamed, ARGV[2])
return redis.call('HSETNX', blobs, ARGV[2], ARGV[3])
)lua";

constexpr char kForget[] = R"lua(
local n = redis.call('HGET', files, ARGV[3] .. ':n') or 0
local b = redis.call('HGET', files, ARGV[3] .. ':b') or 0
redis.call('HDEL', files, ARGV[3] .. ':n', ARGV[3] .. ':b')
set('facts_oldest', ARGV[4])
add('facts', -n)
add('facts_forgotten', n)
return add('facts_bytes', -b)
)lua";

constexpr char kStage[] = R"lua(
if ARGV[3] == '1' then redis.call('DEL', staged) end
for i = 4, #ARGV do redis.call('RPUSH', staged, ARGV[i]) end
return redis.call('LLEN', staged)
)lua";

// The log is kept from so many events before the checkpoint's on, and its checksum there.
constexpr char kCheckpoint[] = R"lua(
local revision, before, last = tonumber(ARGV[3]), tonumber(get('checkpoint')), tonumber(get('last'))
if revision < before or revision > last then return refuse('BOUNDS ' .. before .. ' ' .. last) end
local function apply(kind, key, value)
  if kind == 'p' then
    redis.call('HSET', state, key, value)
  elseif kind == 'e' then
    redis.call('HDEL', state, key)
  elseif kind == 'a' then
    redis.call('HSET', archive, key, value)
    redis.call('ZADD', archived, 0, key)
  end
end
if ARGV[5] == 's' then
  local at, size = 0, redis.call('LLEN', staged)
  while at < size do
    local piece = redis.call('LRANGE', staged, at, at + 2999)
    for i = 1, #piece, 3 do apply(piece[i], piece[i + 1], piece[i + 2]) end
    at = at + #piece
  end
  redis.call('DEL', staged)
end
for i = 5, #ARGV, 3 do apply(ARGV[i], ARGV[i + 1], ARGV[i + 2]) end
local first = revision - tonumber(ARGV[4])
if first > tonumber(get('first')) then
  local sum = get('last_sum')
  if first < last then sum = redis.call('XRANGE', log, first, first)[1][2][2] end
  redis.call('XTRIM', log, 'MINID', (first + 1) .. '-0')
  set('first', first, 'first_sum', sum)
end
add('saved', 1)
set('checkpoint', ARGV[3], 'entries', redis.call('HLEN', state),
    'archive', redis.call('HLEN', archive))
return 1
)lua";

constexpr char kAdopt[] = R"lua(
if get('last') ~= '0' or (get('epoch') ~= '0' and not get('emptied')) then
  return refuse('NOTEMPTY ' .. get('last'))
end
redis.call('HDEL', meta, 'emptied')
set('id', ARGV[2], 'generation', ARGV[3], 'first', ARGV[4], 'last', ARGV[4], 'first_sum', 0,
    'last_sum', 0)
return 1
)lua";

// Epochs that were lost with the history before are below those of this one.
constexpr char kRaise[] = R"lua(
set('beat', 0, 'leader', '', 'batch', '')
redis.call('HDEL', meta, 'lost')
add('epoch', 1000)
return add('generation', 1)
)lua";

// Epochs are above all that were, and no number of a file is given twice. No history has the
// generation 0.
constexpr char kEmpty[] = R"lua(
local schema, epoch, file = get('schema'), get('epoch'), get('file')
redis.call('DEL', meta, log, state, staged, archive, archived, blobs, facts, files, unnamed)
begin(schema, ARGV[1], 0, epoch + 1000, file)
set('emptied', 1)
return 1
)lua";

// A mark is of the log's end of now. What is confirmed or removed has the mark still by which that
// was decided.
constexpr char kSweep[] = R"lua(
local last = get('last')
if tonumber(ARGV[4]) > tonumber(last) then return refuse('PLACE ' .. last) end
for i = 5, #ARGV, 3 do
  local kind, digest, value = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if kind == 'n' then
    redis.call('HDEL', unnamed, digest)
  elseif kind == 'v' then
    if redis.call('HEXISTS', blobs, digest) == 1 then redis.call('HSET', blobs, digest, value) end
  elseif kind == 'm' then
    redis.call('HSET', unnamed, digest, ARGV[3] .. ':' .. last)
  elseif redis.call('HGET', unnamed, digest) == value then
    if kind == 'c' then
      redis.call('HSET', unnamed, digest, ARGV[3] .. ':0')
    else
      redis.call('HDEL', unnamed, digest)
      redis.call('HDEL', blobs, digest)
    end
  end
end
return 1
)lua";

Script Of(const std::string& body, bool same_store, bool guarded) {
  return Script(std::string(kPrologue) + (same_store ? kSameStore : "") + (guarded ? kWriter : "") +
                body);
}

}  // namespace

const Scripts& TheScripts() {
  static const Scripts& scripts = *new Scripts{Of(absl::StrCat(kFirst, kOpen), false, false),
                                               Of(kLead, true, false),
                                               Of(kBeat, true, true),
                                               Of(kLose, true, false),
                                               Of(kFile, true, false),
                                               Of(kBefore, true, true),
                                               Of(kCommit, true, true),
                                               Of(kRead, true, false),
                                               Of(kPut, true, false),
                                               Of(kForget, true, true),
                                               Of(kStage, true, true),
                                               Of(kCheckpoint, true, true),
                                               Of(kAdopt, true, false),
                                               Of(kRaise, true, false),
                                               Of(absl::StrCat(kFirst, kEmpty), true, false),
                                               Of(kSweep, true, true)};
  return scripts;
}

}  // namespace warpsmith::store::redis
