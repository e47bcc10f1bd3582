package consumer

import (
	"context"
	"fmt"
	"time"

	"github.com/onefold-go/onefold"
)

// This file is Config.RelayWithin: without a relay on the same store everything that handlers send would pile up
// in a local file, acked and unseen.

// unrelayed reports whether a store's rows wait for a relay that does not come. up is how long the consumer has
// run: a relay that is about to start is not blamed for what an earlier process has left.
func unrelayed(s onefold.Stats, up, within time.Duration) bool {
	return up >= within && s.Waiting > 0 && s.OldestWaiting >= within && (s.LastFeed < 0 || s.LastFeed >= within)
}

// watchRelay stops the consumer while nobody relays what the store holds, until ctx ends.
func (s *session) watchRelay(ctx context.Context) {
	ticker := time.NewTicker(max(20*time.Millisecond, min(s.cfg.RelayWithin/8, time.Second)))
	defer ticker.Stop()
	start := s.clock.Mono()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		stats, err := s.st.Stats(ctx)
		if err != nil {
			continue // what does not answer is noticed by those who need it
		}
		var reason error
		on := unrelayed(stats, s.clock.Mono()-start, s.cfg.RelayWithin)
		if on {
			reason = fmt.Errorf("%w: %d effects wait in the store, the oldest for %v, and no relay has asked for them (Config.RelayWithin is %v); run an outbox.Relay on this store",
				ErrUnrelayed, stats.Waiting, stats.OldestWaiting.Round(time.Millisecond), s.cfg.RelayWithin)
		}
		s.stopFor(whyRelay, on, reason)
	}
}
