package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/memstore"
)

// shared is a memory store that allows several feeds and several handles, as a store on a server does.
type shared struct {
	onefold.Store
	hub *hub
}

// hub is the one feed behind those that a shared store gives out.
type hub struct {
	mu    sync.Mutex
	feed  onefold.Feed
	users int
}

func newShared(s onefold.Store) shared { return shared{s, &hub{}} }

func (s shared) Info() onefold.Info {
	info := s.Store.Info()
	info.OneProcess, info.OneFeed, info.Expiry = false, false, onefold.ExpiryServer
	return info
}

func (s shared) Feed(ctx context.Context, lease time.Duration) (onefold.Feed, error) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if lease <= 0 {
		return nil, fmt.Errorf("%w: lease", onefold.ErrInvalid)
	}
	if _, err := s.Stats(ctx); err != nil {
		return nil, err // closed
	}
	if s.hub.users == 0 {
		f, err := s.Store.Feed(ctx, lease)
		if err != nil {
			return nil, err
		}
		s.hub.feed = f
	}
	s.hub.users++
	return &part{store: s, feed: s.hub.feed}, nil
}

// part is one of the feeds of a shared store.
type part struct {
	store  shared
	feed   onefold.Feed
	mu     sync.Mutex
	rows   []onefold.Row
	closed bool
}

func (p *part) Next(ctx context.Context, max int) ([]onefold.Row, error) {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("%w: closed", onefold.ErrLost)
	}
	rows, err := p.feed.Next(ctx, max)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows = append(p.rows, rows...)
	return rows, err
}

// Close gives back the rows of this feed alone, unless it is the last one.
func (p *part) Close() error {
	p.store.hub.mu.Lock()
	defer p.store.hub.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	p.store.hub.users--
	if p.store.hub.users == 0 {
		return p.feed.Close()
	}
	for _, r := range p.rows {
		one := onefold.Settlement{Row: r, State: onefold.Delayed}
		_ = p.store.Settle(context.Background(), []onefold.Settlement{one}) // it may have been settled
	}
	return nil
}

// handle is a second handle on a shared store; closing it leaves the store open.
type handle struct{ shared }

func (handle) Close(context.Context) error { return nil }

func openShared(t testing.TB, clock onefold.Clock) Instance {
	m, err := memstore.Open(memstore.NewData(clock), &memstore.Options{Clock: clock})
	require.NoError(t, err)
	s := newShared(m)
	return Instance{Store: s, Another: func(testing.TB) (onefold.Store, error) { return handle{s}, nil }}
}

func TestRulesOfSharedStoresHoldForOne(t *testing.T) {
	Run(t, Harness{Open: openShared})
}
