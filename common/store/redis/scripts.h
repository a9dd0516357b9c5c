// What a Redis store does on the server: each script is one step, all or nothing, and refuses
// whoever is not its writer there, where no answer can be late.
//
// Keys, all of one hash slot: PREFIX meta, log, state, next, archive, archived, blobs, facts,
// files, unnamed
//   meta      hash     schema, id, generation, epoch, beat, leader
//                      lost                 an event that was there, and is not: nobody leads
//                      last, last_sum       the log's end: revision, checksum of all up to there
//                      batch                says which batch the last one was
//                      first, first_sum     as last, of the event before the first that is kept
//                      checkpoint, entries  its revision, its entries
//                      saved                how often it was saved
//                      emptied              1, between empty and adopt
//                      archive              entries of the archive
//                      file                 the last number that was given to a shared file
//                      facts, facts_bytes, facts_forgotten
//                      facts_oldest         the first file of facts that is kept
//   log       stream   entry REVISION-EPOCH: s (checksum of all events up to it), b (bytes)
//   state     hash     entries of the checkpoint: checksum and bytes
//   next      list     of a checkpoint that is said in pieces, what was said so far
//   archive   hash     likewise; archived: their keys, in order (sorted set)
//   blobs     hash     digest (32 bytes): 'i' and the bytes, or 'p' and their place in a file
//   facts     hash     subject: place of its newest facts, which name the place of those before
//   unnamed   hash     digest of a blob that was found unnamed: since when, ":", the log's end
//                      then, or 0 (store.h, Mark)
//   files     hash     "N:n", "N:b": facts, and their bytes, of the commits that ended in file N
//
// Refusals: "OTHERSTORE id", "STALE epoch", "LOST event", "PLACE last", "BOUNDS checkpoint last",
// "NOTEMPTY last", "EMPTIED store".
#pragma once

#include "common/store/redis/connection.h"

namespace warpsmith::store::redis {

inline constexpr int kSchema = 1;

// Numbers of the keys above, as the scripts are given them.
enum Key {
  kMeta,
  kLog,
  kState,
  kNext,
  kArchive,
  kArchived,
  kBlobs,
  kFacts,
  kFiles,
  kUnnamed,
  kKeys
};

// Every script's first argument: the store's id. "Guarded" ones go on with the epoch.
//   open      (id of a new store, schema)
//   lead      (id, epoch that must be the current one or "", and its beat, leader's address)
//             -> epoch
//   beat      (id, epoch, leader's address)                             guarded -> last
//   lose      (id, generation, event)      it is known to be missing
//   file      (id)                                                      -> a file's number
//   before    (id, epoch, subjects, digests, subject..., digest...)     guarded
//             -> last, last_sum, batch, {place of each subject}, {1: that blob is there}
//   commit    (id, epoch, after, batch, last, last_sum, events, blobs, subjects, file of facts,
//              bytes of facts, facts, {sum, event}..., {digest, value}..., {subject, place}...)
//                                                                       guarded -> facts_bytes
//   read      (id, revision, number of events) -> first, first_sum, last, entries from there on
//   put       (id, digest, value)
//   forget    (id, epoch, file, next file)                              guarded
//   stage     (id, epoch, first: "1", piece...)                         guarded
//   checkpoint(id, epoch, revision, events kept before it, {kind, key, value}...)     guarded
//             after what was staged, if the first kind is "s"; kinds: p(ut), e(rase), a(rchive)
//   sweep     (id, epoch, time, revision, {kind, digest, value}...)     guarded
//             kinds: n(amed), m(ark), c(onfirm) and r(emove), if that is its mark, v: it was moved,
//             and that is its value now
//   adopt     (id, new id, generation, revision)        of a store without events or leader
//   raise     (id)                                      another history from here on -> generation
//   empty     (id)                                      nothing is there, and nobody leads until
//   adopt
struct Scripts {
  Script open, lead, beat, lose, file, before, commit, read, put, forget, stage, checkpoint, adopt,
      raise, empty, sweep;
};
const Scripts& TheScripts();

}  // namespace warpsmith::store::redis
