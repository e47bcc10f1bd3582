package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
)

// publishMany stores n messages without waiting for each.
func (r *rig) publishMany(n int, message func(i int) (id, body string)) {
	r.t.Helper()
	for i := range n {
		id, body := message(i)
		m := &nats.Msg{Subject: "in.a", Data: []byte(body), Header: nats.Header{}}
		if id != "" {
			m.Header.Set(onefold.HeaderID, id)
		}
		_, err := r.js.PublishMsgAsync(m)
		require.NoError(r.t, err)
		if i%1000 == 999 { // the client gives up when more wait for their answer than it likes
			r.published()
		}
	}
	r.published()
}

// published waits until the stream has answered for all messages.
func (r *rig) published() {
	r.t.Helper()
	select {
	case <-r.js.PublishAsyncComplete():
	case <-r.ctx.Done():
		require.FailNow(r.t, "publishing does not end")
	}
}

func TestASlowHandlerRunsNoMessageTwiceAndWhatCannotStartInTimeIsGivenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const messages = 60
	var runs [messages]atomic.Int64
	c := r.config(func(ctx context.Context, m *onefold.Message, _ *onefold.Effects) error {
		runs[m.Sequence-1].Add(1)
		return after(ctx, 200*time.Millisecond)
	})
	c.AckWait = time.Second
	r.publishMany(messages, func(i int) (string, string) { return strconv.Itoa(i), "x" })
	w := r.start(c)
	r.awaitCount("acked", messages)
	r.settled()
	w.end()
	for i := range runs {
		assert.EqualValues(t, 1, runs[i].Load(), "message %d", i+1)
	}
	assert.Equal(t, r.count("given back"), r.count("received")-messages, "each further delivery of a message was given back before")
	assert.Zero(t, r.count("dropped")+r.count("duplicate")+r.count("lost"))
}

func TestCopiesThatWaitTakeNobodysPlace(t *testing.T) {
	r := newRig(t)
	g := newGate()
	w := r.start(r.config(func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		if fx.Key().ID == "slow" {
			return g.pass(ctx)
		}
		return nil
	}))
	r.publishMany(500, func(int) (string, string) { return "slow", "x" })
	r.publishMany(20, func(i int) (string, string) { return strconv.Itoa(i), "x" })
	r.awaitCount("acked", 20)
	assert.Zero(t, r.count("given back"))
	close(g.open)
	r.awaitCount("duplicate", 499)
	w.end()
}

func TestEightWorkersAddTwoHundredTimesToOneCounterAndLoseNothing(t *testing.T) {
	r := newRig(t)
	const messages = 200
	c := r.config(func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		data, _, err := fx.Get(ctx, "counters", "one")
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(string(data))
		fx.Put("counters", "one", []byte(strconv.Itoa(n+1)))
		return nil
	})
	c.Concurrency, c.MaxAttempts = 8, 1
	r.publishMany(messages, func(i int) (string, string) { return strconv.Itoa(i), "x" })
	w := r.start(c)
	r.awaitCount("acked", messages)
	w.end()
	v, err := r.st.Read(r.ctx, "counters", "one")
	require.NoError(t, err)
	assert.Equal(t, strconv.Itoa(messages), string(v.Data))
	assert.Zero(t, r.count("dead"), "a conflict is no attempt")
}

func TestAStragglerOfAnEarlierRunCannotReachTheEffectsOfARerun(t *testing.T) {
	r := newRig(t)
	var late *onefold.Effects
	var runs int
	w := r.start(r.config(func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		_, _, err := fx.Get(ctx, "t", "k")
		if runs++; runs == 1 {
			late = fx
			c := onefold.Commit{Entry: onefold.Entry{Writes: []onefold.Write{{Table: "t", Key: "k", Value: []byte("moved")}}}}
			return errors.Join(err, r.st.Commit(ctx, []*onefold.Commit{&c}), c.Err)
		}
		late.Put("t", "from the past", []byte("x"))
		return err
	}))
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	w.end()
	assert.Equal(t, 2, runs)
	assert.Equal(t, 1, late.Late())
	v, err := r.st.Read(r.ctx, "t", "from the past")
	require.NoError(t, err)
	assert.Zero(t, v.Version)
}

// TestEveryArrivalEndsOnceInAStormOfEverything counts each arrival against the one way in which it ended.
func TestEveryArrivalEndsOnceInAStormOfEverything(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const messages = 3000
	s := newStorm(r)
	c := r.config(s.handle)
	c.AckWait, c.Lease, c.MaxAttempts, c.Concurrency = 700*time.Millisecond, 400*time.Millisecond, 3, 8
	c.RetryMax = 5 * time.Millisecond
	work, err := consumer.New(r.js, s.store(), c)
	require.NoError(t, err)
	relay := r.relay()
	r.publishMany(messages, func(i int) (string, string) {
		switch {
		case i%50 == 0:
			return "", "no id"
		case i%7 == 0:
			return fmt.Sprint("copy", i/70), "copy"
		case i%31 == 0:
			return fmt.Sprint("copy", i/70), "another payload"
		}
		return strconv.Itoa(i), strconv.Itoa(i)
	})
	for round := range 4 { // stop in the middle, three times
		session, err := work.Open(r.ctx)
		require.NoError(t, err)
		w := r.run(part(session.Start))
		if round < 3 {
			answered := r.answered()
			r.await("some answers", func(c map[string]int) bool { return sum(c, "acked", "duplicate") >= answered+300 })
		} else {
			r.settled()
		}
		w.end()
		asked, held, keys := session.Counts()
		assert.Equal(t, [3]int{}, [3]int{asked, held, keys}, "asked, held, keys after round %d", round)
		assert.Equal(t, r.count("received"), r.ends(), "arrivals and ends after round %d", round)
	}
	relay.end()
	stats, err := r.st.Stats(r.ctx)
	require.NoError(t, err)
	s.check(t)
	assert.Positive(t, r.count("retried"))
	assert.Positive(t, r.count("dead"))
	assert.Positive(t, r.count("lost"))
	assert.Positive(t, r.count("followed"))
	assert.Positive(t, s.conflicts.Load())
	assert.LessOrEqual(t, stats.Claims, uint64(r.count("lost")), "a claim that nobody has given up waits for its end")
}

// part makes a part of a function.
type part func(context.Context) error

func (p part) Run(ctx context.Context) error { return p(ctx) }

func sum(c map[string]int, names ...string) (n int) {
	for _, name := range names {
		n += c[name]
	}
	return n
}

func (r *rig) answered() int { return r.count("acked") + r.count("duplicate") }

// ends is how many arrivals have ended. Each way is told of once.
func (r *rig) ends() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return sum(r.counts, "acked", "duplicate", "retried", "given back", "dropped", "lost")
}

// storm is a handler and a store that fail in every way now and then.
type storm struct {
	r         *rig
	mu        sync.Mutex
	committed map[string]int
	calls     atomic.Int64
	conflicts atomic.Int64
}

func newStorm(r *rig) *storm { return &storm{r: r, committed: map[string]int{}} }

func (s *storm) handle(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
	switch n := s.calls.Add(1); {
	case n%11 == 0:
		return errors.New("not now")
	case n%97 == 0:
		panic("boom")
	case n%101 == 0:
		goexit()
	case n%103 == 0:
		return onefold.Permanent(errors.New("never"))
	case n%5 == 0:
		data, _, err := fx.Get(ctx, "storm", "hot")
		if err != nil {
			return err
		}
		fx.Put("storm", "hot", append(data[:min(len(data), 8)], 'x'))
	}
	return nil
}

// store fails each kind of call now and then.
func (s *storm) store() *faulty {
	var begins, commits, answers, releases atomic.Int64
	return &faulty{
		Store: s.r.st,
		begin: func(onefold.Request) error {
			if begins.Add(1)%301 == 0 {
				return onefold.ErrUnavailable
			}
			return nil
		},
		commit: func([]*onefold.Commit) error {
			if commits.Add(1)%29 == 0 {
				return onefold.ErrUnavailable
			}
			return nil
		},
		release: func(*onefold.Claim) error {
			if releases.Add(1)%41 == 0 {
				return onefold.ErrLost
			}
			return nil
		},
		answered: func(batch []*onefold.Commit) {
			for _, c := range batch {
				if errors.Is(c.Err, onefold.ErrConflict) {
					s.conflicts.Add(1)
				}
				if c.Err == nil && answers.Add(1)%53 == 0 {
					c.Err = onefold.ErrUnknown
				} else if c.Err == nil && c.Entry.Outcome == onefold.Succeeded {
					s.mu.Lock()
					s.committed[c.Entry.Key.ID]++
					s.mu.Unlock()
				}
			}
		},
	}
}

// check wants each key committed once at most.
func (s *storm) check(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range s.committed {
		assert.Equal(t, 1, n, "commits of %s", id)
	}
}

func TestAfterManyMessagesAnIdleConsumerHoldsNothing(t *testing.T) {
	r := newRig(t)
	const messages = 20_000
	var runs, acked atomic.Int64
	all := make(chan struct{}, 1)
	c := r.config(func(context.Context, *onefold.Message, *onefold.Effects) error { runs.Add(1); return nil })
	c.Observer = &onefold.Observer{Acked: func(onefold.DeliveryEvent) {
		if acked.Add(1) == messages {
			all <- struct{}{}
		}
	}}
	work, err := consumer.New(r.js, r.st, c)
	require.NoError(t, err)
	session, err := work.Open(r.ctx)
	require.NoError(t, err)
	r.publishMany(messages, func(i int) (string, string) { return strconv.Itoa(i), "x" })
	w := r.run(part(session.Start))
	r.await1(all)
	r.settled()
	_, held, keys := session.Counts()
	assert.Zero(t, held)
	assert.Zero(t, keys)
	stats, err := r.st.Stats(r.ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 2, stats.Claims, "of scope and durable")
	assert.EqualValues(t, messages, stats.Records)
	w.end()
	asked, held, _ := session.Counts()
	assert.Zero(t, asked)
	assert.Zero(t, held)
	assert.EqualValues(t, messages, runs.Load())
	stats, err = r.st.Stats(r.ctx)
	require.NoError(t, err)
	assert.Zero(t, stats.Claims)
}
