package boltstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onefold-go/onefold"
)

// feed is the one relay that has rows out. Its fields are guarded by the lock of the queue.
type feed struct {
	store   *Store
	lease   time.Duration
	asked   time.Duration // monotonic time of the last Next or Settle
	blocked int           // calls of Next that wait; they keep the feed alive
	writing int           // calls of Next and Settle that wait for the writer; see lapse
	out     map[*rowRef]struct{}
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
	q := &s.rows
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.feed != nil {
		q.feed.lapse()
	}
	if q.feed != nil && q.feed.live() {
		return nil, fmt.Errorf("%w: another feed is open", onefold.ErrBusy)
	}
	q.feed = &feed{store: s, lease: lease, asked: s.clock.Mono(), out: map[*rowRef]struct{}{}}
	return q.feed, nil
}

// live reports whether the feed still has its rows. One whose lease is over gives them back here, unless it
// waits for the writer: a slow disk alone takes nothing from a relay that is at work.
func (f *feed) live() bool {
	if f.writing == 0 {
		f.lapse()
	}
	return !f.ended
}

// lapse ends the feed if its lease is over. Another relay that asks for a feed gets it then, also from one
// that waits for the writer. A settlement that is on the way at that time is either of a row that ends, or
// finds at its publication that the row has changed hands, and is lost.
func (f *feed) lapse() {
	if !f.ended && f.blocked == 0 && f.store.clock.Mono()-f.asked > f.lease {
		f.end()
	}
}

// begin and done stand around a call that waits; n counts such calls. Both renew the lease.
func (f *feed) begin(n *int) {
	*n++
	f.asked = f.store.clock.Mono()
}

func (f *feed) done(n *int) {
	*n--
	f.asked = f.store.clock.Mono()
}

// end gives the rows back.
func (f *feed) end() {
	f.ended = true
	for r := range f.out {
		f.giveBack(r)
	}
	f.out = nil
	f.store.rows.notify()
}

func (f *feed) giveBack(r *rowRef) {
	delete(f.out, r)
	if r.feed == f {
		r.feed, r.ticket = nil, 0
		f.store.rows.place(r)
	}
}

// Close implements [onefold.Feed].
func (f *feed) Close() error {
	f.store.rows.mu.Lock()
	defer f.store.rows.mu.Unlock()
	if !f.ended {
		f.end()
	}
	return nil
}

// lookAgain is how often Next looks at delayed rows. It must look: a wall clock that is set wakes nobody.
const lookAgain = 50 * time.Millisecond

// Next implements [onefold.Feed].
func (f *feed) Next(ctx context.Context, limit int) ([]onefold.Row, error) {
	if limit <= 0 {
		return nil, fmt.Errorf("%w: max is %d; it must be positive", onefold.ErrInvalid, limit)
	}
	for {
		if err := f.store.enter(ctx); err != nil {
			return nil, err
		}
		out, err := f.take(ctx, limit)
		if err != nil {
			return nil, err
		}
		if len(out) == 0 {
			continue
		}
		rows, err := f.handOut(ctx, out)
		if err != nil || len(rows) > 0 {
			return rows, err
		}
	}
}

// handed is a row that has just been given to the feed.
type handed struct {
	ref      *rowRef
	value    []byte // nil: to be read
	ticket   uint64
	attempts uint32
	tried    bool
	suspect  bool
}

// take gives the feed at most limit due rows, or waits once for a change if there is none.
func (f *feed) take(ctx context.Context, limit int) ([]handed, error) {
	q := &f.store.rows
	q.mu.Lock()
	defer q.mu.Unlock()
	if !f.live() {
		return nil, fmt.Errorf("%w: the lease of this feed has ended", onefold.ErrLost)
	}
	f.asked = f.store.clock.Mono()
	q.asked = f.asked
	q.becomeDue()
	if out := f.pick(limit); len(out) > 0 {
		return out, nil
	}
	f.begin(&f.blocked)
	q.waiting++
	err := q.await(ctx)
	q.waiting--
	f.done(&f.blocked)
	return nil, err
}

// pick hands out ready rows, oldest first.
func (f *feed) pick(limit int) []handed {
	q := &f.store.rows
	out := make([]handed, 0, min(limit, len(q.ready.rows)))
	for len(out) < limit {
		r := q.ready.first()
		if r == nil {
			break
		}
		q.ready.remove(r)
		r.attempts++
		r.ticket, r.feed = q.nextTicket(), f
		f.out[r] = struct{}{}
		if r.orderKey != "" {
			l := q.lanes[r.orderKey]
			l.scheduled, l.out = nil, r
		}
		out = append(out, handed{r, r.value, r.ticket, r.attempts, r.tried, r.suspect})
	}
	return out
}

// await gives the lock up until rows may have become ready, or ctx or the store ends.
func (q *rowQueue) await(ctx context.Context) error {
	var look <-chan time.Time
	if len(q.byWall.rows) > 0 {
		timer := time.NewTimer(lookAgain)
		defer timer.Stop()
		look = timer.C
	}
	wake := q.wake
	q.mu.Unlock()
	defer q.mu.Lock()
	select {
	case <-wake:
	case <-look:
	case <-q.store.closing:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// handOut makes rows of what was taken: it counts attempts durably where that is due, and reads what is
// not in memory. Rows that have ended meanwhile are left out.
func (f *feed) handOut(ctx context.Context, out []handed) ([]onefold.Row, error) {
	err := f.countAttempts(ctx, out)
	rows := make([]onefold.Row, 0, len(out))
	if err == nil {
		rows, err = f.store.load(rows, out)
	}
	if err == nil {
		return rows, nil
	}
	q := &f.store.rows
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, h := range out {
		if h.ref.ticket == h.ticket && h.ref.feed == f {
			f.giveBack(h.ref)
		}
	}
	return nil, feedError(err)
}

// feedError turns errors that Next does not name into one that it does.
func feedError(err error) error {
	if errors.Is(err, onefold.ErrFull) || errors.Is(err, onefold.ErrUnknown) {
		return fmt.Errorf("%w: %w", onefold.ErrUnavailable, err)
	}
	return err
}

// load appends the rows with their effects.
func (s *Store) load(rows []onefold.Row, out []handed) ([]onefold.Row, error) {
	for _, h := range out {
		value := h.value
		if value == nil {
			err := s.snap.read(func(b *buckets) error {
				key := position(h.ref.position)
				stored, err := b.rows.get(key)
				if stored == nil && err == nil {
					stored, err = b.parked.get(key) // its parking was overtaken by another feed
				}
				value = append(value, stored...)
				return err
			})
			if err != nil {
				return nil, err
			}
			if value == nil {
				continue // ended meanwhile: cancelled or erased
			}
		}
		w, err := parseRow(value)
		if err != nil {
			return nil, unreadable(err, "row %d", h.ref.position)
		}
		rows = append(rows, onefold.Row{
			Key: w.key, Effect: w.effect, Attempt: int(h.attempts), Tried: h.tried,
			Handle: ticket{s, h.ref.position, h.ticket},
		})
	}
	return rows, nil
}

// ticket is the Handle of a row: which row of which Open, and who may settle it.
type ticket struct {
	store            *Store
	position, ticket uint64
}
