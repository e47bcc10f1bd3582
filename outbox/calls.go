package outbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onefold-go/onefold"
)

// calls is the way to the functions during one session. Of each function a window of calls is under way, and as
// many rows as are held wait for their turn, in the order of the feed. What finds no room is given back, so
// that the fetcher never waits for a function and messages behind its rows go out.
type calls struct {
	relay   *Relay
	base    context.Context // of every call; the session's own
	resolve func(answer)

	mu      sync.Mutex
	lines   map[string]*line // by name; made at the start and not changed
	out     int              // rows that are called, held, or answered and not yet recorded
	running int
	closed  bool
	quiet   chan struct{} // holds one token if the last call has ended
}

// line is one function and its rows.
type line struct {
	name     string
	function Function
	running  int
	held     []*onefold.Row
	turns    turns
}

// The reasons of rows that were not called.
var (
	errNoTurn   = errors.New("more calls wait than are held in memory; it comes again when it is its turn")
	errStopping = errors.New("the relay has stopped before its turn")
	errCalling  = errors.New("an earlier call of this row has not returned")
)

func newCalls(ctx context.Context, r *Relay, resolve func(answer)) *calls {
	c := &calls{relay: r, base: ctx, resolve: resolve, lines: make(map[string]*line, len(r.config.Functions)), quiet: make(chan struct{}, 1)}
	for name, f := range r.config.Functions {
		c.lines[name] = &line{name: name, function: f}
	}
	return c
}

// unregistered says why this relay cannot call the function of e, or nil.
func (c *calls) unregistered(e *onefold.Effect) error {
	if c.lines[e.Target] != nil {
		return nil
	}
	known := strings.Join(slices.Sorted(maps.Keys(c.lines)), ", ")
	if known == "" {
		known = "none"
	}
	return fmt.Errorf("%w: function %q; registered in Config.Functions: %s. Register it and resume the row", errUnsupported, e.Target, known)
}

// admit calls row, or holds it until it is its turn. If there is no room it reports false, with the reason and how
// long the row is to stay away.
func (c *calls) admit(row *onefold.Row) (ok bool, delay time.Duration, err error) {
	config := &c.relay.config
	now := config.Clock.Mono()
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lines[row.Effect.Target]
	switch {
	case c.relay.active.has(row.Effect.ID):
		return false, config.RetryMin, errCalling
	case l.running < l.function.Window:
		c.start(l, row, now)
	case len(l.held) < config.Window:
		l.held = append(l.held, row)
	default:
		return false, l.turns.book(now, l.function.Window, config.Window, config.RetryMax), errNoTurn
	}
	c.out++
	return true, 0, nil
}

// start calls row in a goroutine of its own; the last to end is told by quiet.
func (c *calls) start(l *line, row *onefold.Row, now time.Duration) {
	if l.running == 0 {
		l.turns.wake(now)
	}
	l.running++
	c.running++
	c.relay.active.begin(row.Effect.ID, l.name)
	go func() {
		end := c.try(l, row)
		c.relay.active.end(row.Effect.ID)
		c.resolve(answer{row: row, call: &end})
		c.ended(l, now, end.reached == called)
	}()
}

// ended starts the call of the row whose turn it is now.
func (c *calls) ended(l *line, began time.Duration, counts bool) {
	now := c.relay.config.Clock.Mono()
	c.mu.Lock()
	defer c.mu.Unlock()
	if counts {
		l.turns.note(now, now-began)
	}
	l.running--
	c.running--
	if len(l.held) > 0 && !c.closed {
		row := l.held[0]
		l.held[0] = nil
		l.held = l.held[1:]
		c.start(l, row, now)
	}
	if c.running == 0 {
		select {
		case c.quiet <- struct{}{}:
		default:
		}
	}
}

// giveBack resolves the rows that wait for their turn, because it does not come any more. Nothing may be admitted
// after it.
func (c *calls) giveBack() {
	c.mu.Lock()
	c.closed = true
	var held []*onefold.Row
	for _, l := range c.lines {
		held = append(held, l.held...)
		l.held = nil
	}
	c.mu.Unlock()
	for _, row := range held {
		c.resolve(answer{row: row, call: &callEnd{err: errStopping}})
	}
}

// free notes that n rows are recorded.
func (c *calls) free(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out -= n
}

// count is how many rows are in the hands of this session, and how many of them are called and held.
func (c *calls) count() (out, running, held int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lines {
		held += len(l.held)
	}
	return c.out, c.running, held
}

// await waits until no call is under way, but no longer than ctx.
func (c *calls) await(ctx context.Context) {
	for {
		if _, running, _ := c.count(); running == 0 {
			return
		}
		select {
		case <-c.quiet:
		case <-ctx.Done():
			return
		}
	}
}

// active are the calls of a relay that have not returned, by the IDs of their effects, whichever session has made
// them: a row is never called a second time beside its first call.
type active struct {
	mu    sync.Mutex
	calls map[string]string // to the name of the function
}

func (a *active) begin(id, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls == nil {
		a.calls = map[string]string{}
	}
	a.calls[id] = name
}

func (a *active) end(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.calls, id)
}

func (a *active) has(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.calls[id]
	return ok
}

// left is nil, or an [ErrStillCalling] that names the functions.
func (a *active) left() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.calls) == 0 {
		return nil
	}
	names := slices.Compact(slices.Sorted(maps.Values(a.calls)))
	return fmt.Errorf("%w: %d calls of %s", ErrStillCalling, len(a.calls), strings.Join(names, ", "))
}
