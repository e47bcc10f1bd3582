package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onefold-go/onefold/store/boltstore"
)

// How the end of background work is recognised.
const (
	lookEvery  = 20 * time.Millisecond
	calmAfter  = 400 * time.Millisecond // of nothing seen
	calmWithin = 10 * time.Minute
	busyShare  = 0.2 // of one core
)

var errNotCalm = errors.New("the background work of the store does not end")

// calm decides whether a store has nothing to do in the background: nothing is frozen, its files stay as
// they are, and the process uses no processor time.
type calm struct {
	since time.Time // the last look that saw work
	at    time.Time // the last look
	used  time.Duration
	seen  boltstore.Storage
}

// look takes one look and reports whether the store has been calm for long enough.
func (c *calm) look(at time.Time, used time.Duration, st boltstore.Storage) bool {
	busy := c.at.IsZero() || st.Frozen > 0 || !sameFiles(c.seen, st) ||
		float64(used-c.used) > busyShare*float64(at.Sub(c.at))
	c.at, c.used, c.seen = at, used, st
	if busy {
		c.since = at
	}
	return at.Sub(c.since) >= calmAfter
}

// sameFiles reports whether two looks saw the same sealed files.
func sameFiles(a, b boltstore.Storage) bool {
	return a.Sealed == b.Sealed && a.Segments == b.Segments && slices.Equal(a.Tiers, b.Tiers)
}

// settle waits until nobody commits and nothing is sealed, merged or removed any more, and returns when that
// began.
func settle(ctx context.Context, s *boltstore.Store) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, calmWithin, fmt.Errorf("%w within %v", errNotCalm, calmWithin))
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var c calm
	for {
		used, err := processTime()
		if err != nil {
			return time.Time{}, err
		}
		if c.look(time.Now(), used, s.Storage()) {
			return c.since, nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		}
	}
}

// roomTries is how often room is made before it is given up.
const roomTries = 20

// makeRoom brings a store to where n more records seal nothing: calm, and with room in the active segment.
func (l *load) makeRoom(ctx context.Context, segment, n int) error {
	for range roomTries {
		if _, err := settle(ctx, l.store); err != nil {
			return err
		}
		active := int(l.store.Storage().Active)
		if active+n <= segment {
			return nil
		}
		if _, err := l.commit(ctx, max(segment-active, batchSize), nil); err != nil {
			return err
		}
	}
	return fmt.Errorf("the active segment never had room for %d of its %d records: %+v", n, segment, l.store.Storage())
}

// undisturbed runs do on a store with room for n records until nothing was sealed, merged or removed meanwhile.
func (l *load) undisturbed(ctx context.Context, segment, n int, do func() error) error {
	for range roomTries {
		if err := l.makeRoom(ctx, segment, n); err != nil {
			return err
		}
		before := l.store.Storage()
		if err := do(); err != nil {
			return err
		}
		if after := l.store.Storage(); after.Frozen == 0 && sameFiles(before, after) {
			return nil
		}
	}
	return fmt.Errorf("%w: something was sealed or merged in each of %d rounds of %d records", errNotCalm, roomTries, n)
}
