package diskfault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

// worker uses a store as a plan says.
type worker struct {
	plan  plan
	store *boltstore.Store
	feed  onefold.Feed
	ctx   context.Context

	mu      sync.Mutex
	out     int // rows that wait for the relay
	acked   []int
	stopped bool
}

// How long a worker waits for a refusal to end.
const (
	pause    = 5 * time.Millisecond
	patience = 20 * time.Second
	fewTries = 3
)

// say writes a line in one system call.
func say(words ...any) {
	_, _ = fmt.Fprintln(os.Stdout, words...)
}

// options are those of a plan.
func options(segment int) *boltstore.Options {
	return &boltstore.Options{FailureLag: 10 * time.Millisecond, SegmentRecords: segment}
}

// work does all of a plan and returns when the store is closed or cannot be used any more.
func work(p plan) {
	s, err := boltstore.Open(p.Dir, options(p.Segment))
	if err != nil {
		say(sayUnopened, classOfOpen(err))
		return
	}
	say(sayOpened, s.Info().Epoch)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := &worker{plan: p, store: s, ctx: ctx}
	var lanes sync.WaitGroup
	for lane := range p.Lanes {
		lanes.Go(func() { w.lane(lane) })
	}
	lanes.Wait()
	say(sayClosing)
	// One more turn of the writer: a fail stop in the background may have come after the last answer.
	last := []*onefold.Commit{{Entry: onefold.Entry{Reads: []onefold.Read{{Table: slots, Key: sayClosing}}}}}
	if err := s.Commit(ctx, last); w.stop(err) || w.stop(last[0].Err) || w.gone() {
		w.askStopped()
	}
	if p.Unclosed {
		say(sayEnd)
		return
	}
	say(sayClosed, classOfOpen(s.Close(ctx)))
	say(sayEnd)
}

// lane commits its share of the entries: those whose number divided by the number of lanes leaves its own.
// The first lane is the relay as well, and erases.
func (w *worker) lane(lane int) {
	r := rand.New(rand.NewPCG(w.plan.Seed, uint64(lane)))
	for next := 0; next < w.plan.Entries; {
		n := min(1+r.IntN(w.plan.Batch), w.plan.Entries-next)
		ids := make([]int, n)
		for i := range ids {
			ids[i] = w.plan.First + (next+i)*w.plan.Lanes + lane
		}
		next += n
		if w.gone() || !w.commit(ids) {
			return
		}
		if lane != 0 {
			continue
		}
		if r.IntN(3) == 0 {
			w.relay(1+r.IntN(8), r)
		}
		if r.IntN(9) == 0 {
			w.erase(r)
		}
	}
}

func (w *worker) gone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped
}

// stop notes that the store cannot be used any more.
func (w *worker) stop(err error) bool {
	if !errors.Is(err, onefold.ErrDamaged) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	return true
}

// again waits before try n and says whether there shall be one.
func (w *worker) again(n int, since time.Time) bool {
	if !w.plan.Patient && n >= fewTries || time.Since(since) > patience {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	<-timer.C
	return true
}

// begin claims a key, or says why not.
func (w *worker) begin(id int, c *content) *onefold.Claim {
	since := time.Now()
	for n := 1; ; n++ {
		g, err := w.store.Begin(w.ctx, onefold.Request{
			Key: c.key, Fingerprint: c.print, Lease: lease, Holder: onefold.Holder{Process: 1, Attempt: uint64(id) + 1},
		})
		if err == nil && g.Verdict == onefold.Granted {
			return g.Claim
		}
		if err == nil {
			say(sayError, "begin", "unnamed:"+g.Verdict.String(), id)
			return nil
		}
		say(sayDenied, id, class(err))
		if w.stop(err) || !w.again(n, since) {
			return nil
		}
	}
}

// commit commits entries until each has an answer. It returns false if the store has stopped.
func (w *worker) commit(ids []int) bool {
	var batch []*onefold.Commit
	number := map[*onefold.Commit]int{}
	for _, id := range ids {
		c := contentOf(w.plan.Seed, w.plan.Value, id)
		if claim := w.begin(id, &c); claim != nil {
			one := &onefold.Commit{Claim: claim, Entry: c.entry(id)}
			number[one] = id
			batch = append(batch, one)
		}
	}
	since := time.Now()
	for n := 1; len(batch) > 0; n++ {
		for _, one := range batch {
			say(sayTry, number[one])
		}
		err := w.store.Commit(w.ctx, batch)
		var open []*onefold.Commit
		for _, one := range batch {
			if err != nil {
				one.Err = err
			}
			if !w.answered(number[one], one) {
				open = append(open, one)
			}
		}
		batch = open
		if w.gone() || len(batch) > 0 && !w.again(n, since) {
			break
		}
	}
	return !w.gone()
}

// answered says what an entry was answered, and whether that ends it.
func (w *worker) answered(id int, one *onefold.Commit) bool {
	switch {
	case one.Err == nil:
		say(sayAcked, id, one.Claim.Token)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.acked = append(w.acked, id)
		w.out += len(one.Entry.Effects)
		return true
	case errors.Is(one.Err, onefold.ErrUnknown), errors.Is(one.Err, onefold.ErrDamaged):
		say(sayUnknown, id, class(one.Err))
		w.stop(one.Err)
	case errors.Is(one.Err, onefold.ErrFull), errors.Is(one.Err, onefold.ErrUnavailable):
		say(sayRefused, id, class(one.Err))
	default:
		say(sayError, "commit", "unnamed:"+class(one.Err), id)
	}
	return false
}

// erase erases one of the entries that are stored. Its rows end with it, so that the relay may find fewer.
func (w *worker) erase(r *rand.Rand) {
	w.mu.Lock()
	if len(w.acked) == 0 {
		w.mu.Unlock()
		return
	}
	id := w.acked[r.IntN(len(w.acked))]
	w.out = max(0, w.out-effectsN)
	w.mu.Unlock()
	say(sayErasing, id)
	err := w.store.Erase(w.ctx, keyOf(id))
	if err == nil {
		say(sayErased, id)
		return
	}
	say(sayError, "erase", class(err), id)
	w.stop(err)
}
