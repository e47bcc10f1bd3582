package main

import (
	"context"
	"sync"
	"time"

	"github.com/onefold-go/onefold"
)

// timedStore is a store whose commits are timed for the picture of a soak.
type timedStore struct {
	onefold.Store
	mu    sync.Mutex
	times []time.Duration
}

func (s *timedStore) Commit(ctx context.Context, batch []*onefold.Commit) error {
	start := time.Now()
	err := s.Store.Commit(ctx, batch)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = append(s.times, time.Since(start))
	return err
}

// take returns how many records there are, and the 99th percentile of the commits since it was asked last.
func (s *timedStore) take() (records uint64, p99 time.Duration) {
	s.mu.Lock()
	times := s.times
	s.times = nil
	s.mu.Unlock()
	if st, err := s.Stats(context.Background()); err == nil {
		records = st.Records
	}
	return records, percentile(times, 99)
}
