package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/onefold-go/onefold"
)

// feed is the one relay that has rows out. Rows name it while it has them.
type feed struct {
	store   *Store
	lease   time.Duration
	asked   time.Duration // monotonic time of the last Next or Settle
	waiting int           // calls of Next that are blocked; they keep the feed alive
	ended   bool
}

// Feed implements [onefold.Store].
func (s *Store) Feed(ctx context.Context, lease time.Duration) (onefold.Feed, error) {
	if lease <= 0 {
		return nil, fmt.Errorf("%w: lease is %v; it must be positive", onefold.ErrInvalid, lease)
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	if s.feed != nil && s.feed.live() {
		return nil, fmt.Errorf("%w: another feed is open", onefold.ErrBusy)
	}
	s.feed = &feed{store: s, lease: lease, asked: s.mono()}
	return s.feed, nil
}

// live reports whether the feed still has its rows. One whose lease is over gives them back here.
func (f *feed) live() bool {
	if !f.ended && f.waiting == 0 && f.store.mono()-f.asked > f.lease {
		f.end()
	}
	return !f.ended
}

// end gives the rows back.
func (f *feed) end() {
	f.ended = true
	for _, r := range f.store.data.rows {
		if r.feed == f {
			r.hold, r.feed = 0, nil
		}
	}
	f.store.notify()
}

// Close implements [onefold.Feed].
func (f *feed) Close() error {
	f.store.data.mu.Lock()
	defer f.store.data.mu.Unlock()
	if !f.ended {
		f.end()
	}
	return nil
}

// lookAgain is how often Next looks at delayed rows. It must look, because a clock set by a test wakes
// nobody.
const lookAgain = 50 * time.Millisecond

// Next implements [onefold.Feed].
func (f *feed) Next(ctx context.Context, max int) ([]onefold.Row, error) {
	if max <= 0 {
		return nil, fmt.Errorf("%w: max is %d; it must be positive", onefold.ErrInvalid, max)
	}
	s := f.store
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	for {
		if s.ended || s.closing {
			return nil, onefold.ErrClosed
		}
		if !f.live() {
			return nil, fmt.Errorf("%w: the lease of this feed has ended", onefold.ErrLost)
		}
		f.asked, s.lastFeed = s.mono(), s.mono()
		rows, delay := f.take(max)
		if len(rows) > 0 {
			return rows, nil
		}
		if delay < forever {
			delay = min(delay, lookAgain)
		}
		f.waiting++
		s.asking++
		err := s.wait(ctx, delay)
		s.asking--
		f.waiting--
		f.asked = s.mono()
		if err != nil {
			return nil, err
		}
	}
}

// take hands out at most limit due rows, oldest first. Without one it tells how long until the next
// delayed row is due.
func (f *feed) take(limit int) (rows []onefold.Row, delay time.Duration) {
	s := f.store
	delay = forever
	stopped := map[string]bool{} // ordering keys with an earlier row that is delayed or holds its key, or any that is out
	for _, r := range s.data.rows {
		if !r.parked && r.hold != 0 {
			stopped[r.effect.OrderKey] = true // an earlier one may have been parked, and resumed since
		}
	}
	for _, r := range s.data.rows {
		if len(rows) == limit {
			break
		}
		if r.effect.OrderKey != "" && stopped[r.effect.OrderKey] {
			continue
		}
		left := s.untilDue(r)
		stopped[r.effect.OrderKey] = !r.parked || r.keepsOrder
		switch {
		case r.parked || r.hold != 0:
		case left > 0:
			delay = min(delay, left)
		default:
			r.hold, r.feed = s.number(), f
			r.attempts++
			rows = append(rows, s.show(r))
		}
	}
	return rows, delay
}

// untilDue is how long a row is delayed still; <= 0: it is due. An appointment is a matter of the wall
// clock. A delay is over at its time by the wall clock, or when that much time has passed while the
// store was open, so that a wall clock set back delays nothing.
func (s *Store) untilDue(r *row) time.Duration {
	wall := s.options.Clock.Wall()
	left := r.effect.NotBefore.Sub(wall)
	if !r.delayedTo.IsZero() {
		left = max(left, min(r.delayedTo.Sub(wall), r.delayedFor-s.now()))
	}
	return left
}

// ticket is the Handle of a row: which row of which data, and who may settle it.
type ticket struct {
	data           string // Info.ID
	position, hold uint64
}

// show is a copy of a row for its holder or for a person. A row that nobody has out and that is not
// parked has no ticket.
func (s *Store) show(r *row) onefold.Row {
	shown := onefold.Row{Key: r.key, Effect: copyEffect(r.effect), Attempt: r.attempts, Tried: r.tried}
	if r.hold != 0 {
		shown.Handle = ticket{s.info.ID, r.position, r.hold}
	}
	return shown
}
