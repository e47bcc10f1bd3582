package outbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/memstore"
)

func openStore(t *testing.T) onefold.Store {
	st := memstore.New()
	t.Cleanup(func() { _ = st.Close(context.Background()) })
	return st
}

// duplicate is the answer "duplicate" to a row on its n-th attempt.
func duplicate(n int) answer {
	return answer{
		row: &onefold.Row{Effect: onefold.Effect{ID: "mine"}, Attempt: n},
		ack: &jetstream.PubAck{Stream: "OUT", Sequence: 7, Duplicate: true},
	}
}

func TestOnlyADuplicateThatCannotBeOneIsDoubted(t *testing.T) {
	lost := func(f *firsts) { f.learn("mine", waiting, jetstream.ErrAsyncPublishTimeout) }
	for name, test := range map[string]struct {
		answer  answer
		prepare func(*firsts)
		want    bool
	}{
		"first attempt":             {answer: duplicate(1), want: true},
		"second attempt":            {answer: duplicate(2)},
		"verified":                  {answer: func() answer { a := duplicate(1); a.verified = true; return a }()},
		"no duplicate":              {answer: answer{row: &onefold.Row{Attempt: 1}, ack: &jetstream.PubAck{}}},
		"an error":                  {answer: answer{row: &onefold.Row{Attempt: 1}, err: errNotStored}},
		"after an unclean end":      {answer: duplicate(1), prepare: func(f *firsts) { f.clean = false }},
		"after a lost answer":       {answer: duplicate(1), prepare: lost},
		"after one of another":      {answer: duplicate(1), prepare: func(f *firsts) { f.learn("other", waiting, nil) }, want: true},
		"its reading has failed":    {answer: duplicate(1), prepare: func(f *firsts) { f.learn("mine", waiting, errUnverified) }, want: true},
		"when too many are unknown": {answer: duplicate(1), prepare: func(f *firsts) { f.full = true }},
		"a lost answer is settled":  {answer: duplicate(1), prepare: func(f *firsts) { lost(f); f.learn("mine", sent, nil) }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &firsts{clean: true}
			if test.prepare != nil {
				test.prepare(f)
			}
			assert.Equal(t, test.want, f.doubts(test.answer))
		})
	}
}

func TestWhatTheStreamHasDecidesAboutADuplicate(t *testing.T) {
	type found struct {
		id  string
		ok  bool
		err error
	}
	for name, test := range map[string]struct {
		found found
		want  verdict
		says  string
	}{
		"the message":    {found{id: "mine", ok: true}, sent, ""},
		"another":        {found{id: "other", ok: true}, hopeless, `sequence 7 of "OUT" is the message "other": resume the row when the stream's duplicate window of 2m0s has passed`},
		"nothing":        {found{}, hopeless, `at sequence 7 of "OUT": resume the row when`},
		"no answer":      {found{err: errors.New("nobody there")}, waiting, `read message 7 of stream "OUT": nobody there`},
		"a late answer":  {found{err: context.DeadlineExceeded}, waiting, "deadline exceeded"},
		"no such stream": {found{err: jetstream.ErrStreamNotFound}, waiting, "stream not found"},
	} {
		t.Run(name, func(t *testing.T) {
			v := verifier{timeout: time.Minute, transportID: func(context.Context, *jetstream.PubAck, string) (string, time.Duration, bool, error) {
				return test.found.id, 2 * time.Minute, test.found.ok, test.found.err
			}}
			a := duplicate(1)
			v.verify(context.Background(), &a)
			got, _ := judge(a.err, scene{connected: true})
			assert.Equal(t, test.want, got, "%v", got)
			if test.says != "" {
				require.ErrorContains(t, a.err, test.says)
			}
			f := &firsts{clean: true}
			assert.False(t, f.doubts(a), "it is asked about once")
		})
	}
}
