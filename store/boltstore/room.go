package boltstore

import (
	"fmt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/disk"
)

// room is what the writer knows of the room on the disk. After a write that found none claims are refused, so that
// no handler runs for a commit that would fail; what only frees goes on, and so do the commits of claims that are
// held. The disk is probed without a commit, by taking the blocks that were missing.
type room struct {
	missing error // why claims are refused; nil: there was room
	need    int64 // bytes that the main file has to have, with blocks on the disk
}

// missed notes a write that has found no room.
func (r *room) missed(cause error) {
	r.missing = fmt.Errorf("%w: no space on the disk; free some, and the store goes on by itself: %w", onefold.ErrFull, cause)
}

// lookAtRoom draws the conclusions of a group that was written, or not: it decides whether fresh keys are let in.
func (s *Store) lookAtRoom(g *group, err error) {
	switch {
	case disk.Full(err) && g.load.grows:
		s.room.missed(err)
	case err == nil && g.load.grows:
		s.room = room{} // there is some again
	}
	s.lookAtLimits()
}

// probe looks whether the room that was missing is there now.
func (s *Store) probe() {
	if s.room.missing != nil && s.stopped() == nil {
		if err := s.take(s.room.need); err == nil {
			s.room = room{}
			s.patience.hurry()
		}
	}
	s.lookAtLimits()
}

// take gives the file blocks up to a size, if it does not have them.
func (s *Store) take(need int64) error {
	if need <= s.mapping.reserved {
		return nil
	}
	return s.grow(s.mapping.reserved, need)
}

// lookAtLimits decides whether fresh keys are let in.
func (s *Store) lookAtLimits() {
	err := s.room.missing
	if err == nil {
		err = s.options.limits().exceeded(s.usage())
	}
	if err == nil {
		s.fullness.Store(nil)
		return
	}
	s.fullness.Store(&refusal{err: err})
}

// freshKey says why no fresh key is taken now, or nil.
func (s *Store) freshKey() error {
	if r := s.fullness.Load(); r != nil {
		return r.err
	}
	return nil
}
