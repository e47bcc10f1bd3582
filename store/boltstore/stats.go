package boltstore

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/onefold-go/onefold"
)

// Stats implements [onefold.Store]. Records counts those too that have expired and are not collected yet,
// so it is not exact.
func (s *Store) Stats(ctx context.Context) (onefold.Stats, error) {
	refused := s.enter(ctx)
	if refused != nil && (errors.Is(refused, onefold.ErrClosed) || ctx.Err() != nil) {
		return onefold.Stats{}, refused
	}
	st := onefold.Stats{
		Records: uint64(max(s.records.Load(), 0)) + s.shelves.present.Load().records(), Position: s.loadHead().position, LastFeed: -1, Err: refused,
	}
	for i := range s.stripes {
		st.Claims += s.stripes[i].claimCount()
	}
	s.rows.addStats(&st)
	st.Attention = s.loadHead().tally[countAttention] + st.Parked
	info, err := os.Stat(s.path)
	if err == nil {
		st.Bytes = info.Size()
	}
	for _, f := range s.shelves.present.Load().registry() {
		st.Bytes += f.bytes
	}
	if st.Err == nil {
		st.Err = s.freshKey()
	}
	pages := s.db.Stats()
	st.FreeBytes = int64(pages.FreePageN+pages.PendingPageN) * s.mapping.pageSize
	return st, nil
}

func (st *stripe) claimCount() (n uint64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, c := range st.claims {
		for ; c != nil; c = c.next {
			n++
		}
	}
	return n
}

// oldest is the age of the oldest row that is neither parked nor delayed.
func (q *rowQueue) oldest() time.Duration {
	q.becomeDue()
	if r := q.aging.first(); r != nil {
		return max(q.store.now()-r.stored, 0)
	}
	return 0
}

func (q *rowQueue) addStats(st *onefold.Stats) {
	q.mu.Lock()
	defer q.mu.Unlock()
	st.Parked = uint64(q.parked)
	st.Waiting = uint64(len(q.refs) - q.parked)
	st.OldestWaiting = q.oldest()
	switch {
	case q.waiting > 0:
		st.LastFeed = 0 // a relay asks right now
	case q.asked >= 0:
		st.LastFeed = max(q.store.clock.Mono()-q.asked, time.Duration(0))
	}
}
