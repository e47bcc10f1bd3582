package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/pace"
)

// session is the life of one feed. The fetcher goroutine takes rows and sends them; the calling goroutine
// collects answers and settles rows; a third only watches for the connection's end, a fourth reads messages that the
// server calls duplicates, a fifth looks at the streams that answer; and each call has its own.
type session struct {
	relay    *Relay
	feed     onefold.Feed
	conn     *nats.Conn
	pub      *publisher
	window   *window // of messages
	calls    *calls
	verifier verifier
	looks    chan string // names of streams to look at
	silences silences
	cut      string // the one whose look the end has cut short

	// Used by the collecting goroutine only.
	troubles troubles
	captures captures
	owed     []outcome // decided and not yet recorded; their rows are still out
	settled  int
}

func newSession(r *Relay, feed onefold.Feed, pub *publisher) *session {
	c := &r.config
	return &session{
		relay: r, feed: feed, looks: make(chan string, 16), conn: c.JetStream.Conn(), pub: pub, window: newWindow(c.Window),
		troubles: troubles{lowest: c.RetryMin, highest: c.RetryMax},
		captures: captures{
			timeout: c.PublishTimeout, now: c.Clock.Mono,
			ask: func(ctx context.Context, subject string) capture { return captureOf(ctx, c.JetStream, subject) },
		},
		verifier: verifier{
			asked: make(chan answer, c.Window), timeout: c.PublishTimeout, resolve: pub.resolve,
			transportID: func(ctx context.Context, ack *jetstream.PubAck, published string) (string, time.Duration, bool, error) {
				return readTransportID(ctx, c.JetStream, ack, published)
			},
		},
	}
}

// run returns when the fetcher has ended and every row is settled or given up. From the end of the fetcher on, for
// whatever reason, answers have the shutdown timeout to come, and calls half of it to end by themselves.
func (s *session) run(ctx context.Context) error {
	fetching, stop := context.WithCancelCause(ctx)
	work, endWork := pace.Outlive(fetching, s.relay.config.ShutdownTimeout)
	defer endWork()
	calling, endCalls := pace.Outlive(fetching, s.relay.config.ShutdownTimeout/2)
	defer endCalls()
	s.calls = newCalls(calling, s.relay, s.pub.resolve)
	s.relay.session.Store(s)
	defer s.relay.session.Store(nil)

	var beside sync.WaitGroup
	beside.Go(func() {
		if awaitClosed(fetching, s.conn) {
			stop(fmt.Errorf("relay: %w", nats.ErrConnectionClosed))
		}
	})
	verifying, endVerifying := context.WithCancel(work)
	beside.Go(func() { s.verifier.run(verifying) })
	beside.Go(func() { s.lookAtTargets(verifying) })
	fetched := make(chan error, 1)
	go func() { fetched <- s.fetch(fetching) }()
	err := s.collect(work, fetched, stop)
	stop(nil)
	endVerifying()
	endCalls()
	s.calls.giveBack() // so that none is started any more; they go back with the feed
	s.calls.await(work)
	beside.Wait()
	s.unseen()
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

// launch sends rows, or answers for those that this relay cannot send. From here on a row has the ID that it leaves
// under; the store knows it by its handle.
func (s *session) launch(rows []onefold.Row) {
	for i := range rows {
		row := &rows[i]
		row.Effect.ID = row.LeavesAs()
		if f := s.relay.config.Observer.Fetched; f != nil {
			f(s.relay.rowEvent(row))
		}
		err := unsupported(&row.Effect)
		switch {
		case err != nil:
			s.pub.resolve(answer{row: row, err: err})
		case row.Effect.Kind == onefold.KindCall:
			s.call(row)
		case !s.silences.maySend(row.Effect.Target):
			s.pub.resolve(answer{row: row, err: errSilent})
		default:
			s.pub.send(row)
		}
	}
}

// call hands a row to the calls, which gives its place in the window of messages back, or answers for one that is not
// called now.
func (s *session) call(row *onefold.Row) {
	if err := s.calls.unregistered(&row.Effect); err != nil {
		s.pub.resolve(answer{row: row, err: err})
		return
	}
	if ok, away, err := s.calls.admit(row); !ok {
		s.pub.resolve(answer{row: row, err: err, away: away})
		return
	}
	s.window.give(1)
}

// out is whether rows are out.
func (s *session) out() bool {
	calls, _, _ := s.calls.count()
	return calls > 0 || s.window.out() > 0
}

// collect settles rows as their answers come, until the fetcher has ended and no row is out, but no longer than work.
func (s *session) collect(work context.Context, fetched <-chan error, stop context.CancelCauseFunc) error {
	fetching, result := true, error(nil)
	pause := pace.Store()
	again := time.NewTimer(0)
	defer again.Stop()
	for fetching || s.out() {
		select {
		case <-s.pub.ready:
		case <-again.C: // what is owed
		case result = <-fetched:
			fetching = false
			stop(result)
			s.calls.giveBack()
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
