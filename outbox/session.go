package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/pace"
)

// session is the life of one feed. The fetcher goroutine takes rows and sends them; the calling goroutine
// collects answers and settles rows; a third only watches for the connection's end.
type session struct {
	relay  *Relay
	feed   onefold.Feed
	conn   *nats.Conn
	pub    *publisher
	window *window

	// Used by the collecting goroutine only.
	troubles troubles
	captures captures
	owed     []outcome // decided and not yet recorded; their rows are still out
	settled  int
}

// run returns when the fetcher has ended and every row is settled or given up.
func (s *session) run(ctx context.Context) error {
	fetching, stop := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if awaitClosed(fetching, s.conn) {
			stop(fmt.Errorf("relay: %w", nats.ErrConnectionClosed))
		}
	}()
	fetched := make(chan error, 1)
	go func() { fetched <- s.fetch(fetching) }()
	err := s.collect(ctx, fetched, stop)
	stop(nil)
	<-watched
	return err
}

// fetch takes rows while there is room for them and sends them. It returns why it ended.
func (s *session) fetch(ctx context.Context) error {
	pause := pace.Store()
	for {
		if !s.conn.IsConnected() {
			s.relay.status.hindered(noServer, nats.ErrDisconnected)
		}
		if err := awaitConnected(ctx, s.conn); err != nil {
			return err
		}
		n, err := s.window.take(ctx)
		if err != nil {
			return context.Cause(ctx)
		}
		s.relay.status.freed(noFeed | noServer)
		rows, err := s.feed.Next(ctx, n)
		s.window.give(n - len(rows))
		switch {
		case err == nil:
			pause.Reset()
			s.relay.status.freed(noRows)
			s.launch(rows)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, onefold.ErrUnavailable):
			s.relay.status.hindered(noRows, err)
			if !pace.Sleep(ctx, pause.NextBackOff()) {
				return context.Cause(ctx)
			}
		default:
			return fmt.Errorf("fetch rows: %w", err)
		}
	}
}

// launch sends rows, or answers for those that this relay cannot send.
func (s *session) launch(rows []onefold.Row) {
	for i := range rows {
		row := &rows[i]
		if f := s.relay.config.Observer.Fetched; f != nil {
			f(s.relay.rowEvent(row))
		}
		if err := unsupported(&row.Effect); err != nil {
			s.pub.resolve(answer{row: row, err: err})
			continue
		}
		s.pub.send(row)
	}
}

// collect settles rows as their answers come, until the fetcher has ended and no row is out. After ctx
// has ended it goes on for the shutdown timeout.
func (s *session) collect(ctx context.Context, fetched <-chan error, stop context.CancelCauseFunc) error {
	work, cancel := pace.Outlive(ctx, s.relay.config.ShutdownTimeout)
	defer cancel()
	fetching, result := true, error(nil)
	pause := pace.Store()
	again := time.NewTimer(0)
	defer again.Stop()
	for fetching || s.window.out() > 0 {
		select {
		case <-s.pub.ready:
		case <-again.C: // what is owed
		case result = <-fetched:
			fetching = false
			if errors.Is(result, nats.ErrConnectionClosed) {
				s.pub.close() // no answer can come any more
			}
		case <-work.Done():
			// What is still out is given back with the feed.
			return s.endFetching(fetching, fetched, stop, result)
		}
		err := s.finish(work, s.pub.take())
		switch {
		case err == nil:
			pause.Reset()
		case errors.Is(err, onefold.ErrFull):
			again.Reset(pause.NextBackOff())
		case errors.Is(err, onefold.ErrLost):
			// The other rows that are out may still be ours.
			stop(err)
		default:
			return s.endFetching(fetching, fetched, stop, err)
		}
	}
	return result
}

// endFetching stops the fetcher, waits for it and returns err, or its error if err is nil.
func (s *session) endFetching(fetching bool, fetched <-chan error, stop context.CancelCauseFunc, err error) error {
	stop(err)
	if !fetching {
		return err
	}
	if last := <-fetched; err == nil {
		return last
	}
	return err
}
