package dedupe

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/onefold-go/onefold"
)

// keeper renews one claim until it is stopped.
type keeper struct {
	cancel context.CancelFunc
	done   chan struct{}
	lost   atomic.Bool // the cause of a context cannot tell this claim's loss from that of one around it
}

// startKeeper renews claim every third of its lease and calls lost with [onefold.ErrLost] when it cannot
// be held.
func startKeeper(g *Guard, claim *onefold.Claim, lost context.CancelCauseFunc) *keeper {
	// The keeper does not end with the caller: a commit may go on after it, and needs its claim.
	ctx, cancel := context.WithCancel(context.Background())
	k := &keeper{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(k.done)
		if keep(ctx, g, claim) {
			k.lost.Store(true)
			lost(onefold.ErrLost)
		}
	}()
	return k
}

// stop ends the keeper and waits for it.
func (k *keeper) stop() {
	k.cancel()
	<-k.done
}

// keep renews until ctx ends and reports whether the claim was lost before.
func keep(ctx context.Context, g *Guard, claim *onefold.Claim) bool {
	lease, mono := g.options.Lease, g.options.Clock.Mono
	ticker := time.NewTicker(lease/3 + 1)
	defer ticker.Stop()
	until := mono() + lease
	for {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
		// The lease runs from before the call, so that a slow answer never makes it look longer.
		asked := mono()
		err := g.store.Renew(ctx, claim, lease)
		switch {
		case ctx.Err() != nil:
			return false
		case err == nil:
			until = asked + lease
		case errors.Is(err, onefold.ErrLost), errors.Is(err, onefold.ErrClosed), mono() >= until:
			return true
		}
	}
}
