// Package commit repeats a commit until its outcome is known, and holds the rule which later answers say
// what became of an earlier try.
//
// It imports package onefold and internal/pace.
package commit
