package commit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/commit"
)

// scripted is a store that answers commits in order and repeats the last answer.
type scripted struct {
	onefold.Store
	answers []answer
	tries   []*onefold.Commit
}

type answer struct {
	whole, one error
	existing   *onefold.Record
}

func (s *scripted) Commit(_ context.Context, batch []*onefold.Commit) error {
	a := s.answers[min(len(s.tries), len(s.answers)-1)]
	s.tries = append(s.tries, batch...)
	batch[0].Err, batch[0].Existing = a.one, a.existing
	return a.whole
}

func one(errs ...error) (answers []answer) {
	for _, err := range errs {
		answers = append(answers, answer{one: err})
	}
	return answers
}

func ExampleUntilKnown() {
	// The first answer is lost; the second says that the entry is there.
	st := &scripted{answers: one(onefold.ErrUnknown, nil)}
	err := commit.UntilKnown(context.Background(), st, &onefold.Commit{Entry: onefold.Entry{Key: onefold.Key{Scope: "s", ID: "1"}}})
	fmt.Println(err, len(st.tries))
	// Output: <nil> 2
}

func TestACommitIsRepeatedWhileItsOutcomeIsInDoubt(t *testing.T) {
	strange := errors.New("strange")
	tests := []struct {
		name    string
		answers []error
		tries   int
		want    error
	}{
		{"stored", []error{nil}, 1, nil},
		{"refused at once", []error{onefold.ErrUnavailable}, 1, onefold.ErrUnavailable},
		{"closed at once", []error{onefold.ErrClosed}, 1, onefold.ErrClosed},
		{"busy at once", []error{onefold.ErrBusy}, 1, onefold.ErrBusy},
		{"an unnamed error at once", []error{strange}, 1, strange},
		{"in doubt, then stored", []error{onefold.ErrUnknown, onefold.ErrUnknown, nil}, 3, nil},
		{"a try that did nothing says nothing", []error{onefold.ErrUnknown, onefold.ErrUnavailable, onefold.ErrFull, onefold.ErrBusy, nil}, 5, nil},
		{"an ended try says nothing", []error{onefold.ErrUnknown, context.Canceled, context.DeadlineExceeded, nil}, 4, nil},
		{"an unnamed error says nothing", []error{onefold.ErrUnknown, strange, nil}, 3, nil},
		{"lost", []error{onefold.ErrUnknown, onefold.ErrLost}, 2, onefold.ErrLost},
		{"moved", []error{onefold.ErrUnknown, onefold.ErrConflict}, 2, onefold.ErrConflict},
		{"rejected", []error{onefold.ErrUnknown, onefold.ErrRejected}, 2, onefold.ErrRejected},
		{"held by other work", []error{onefold.ErrUnknown, onefold.ErrMismatch}, 2, onefold.ErrMismatch},
		{"too large", []error{onefold.ErrUnknown, onefold.ErrTooLarge}, 2, onefold.ErrTooLarge},
		{"closed with a doubt", []error{onefold.ErrUnknown, onefold.ErrUnavailable, onefold.ErrClosed}, 3, onefold.ErrUnknown},
		{"damaged with a doubt", []error{onefold.ErrUnknown, onefold.ErrDamaged}, 2, onefold.ErrUnknown},
		{"damaged in doubt", []error{errors.Join(onefold.ErrDamaged, onefold.ErrUnknown)}, 1, onefold.ErrUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &scripted{answers: one(tt.answers...)}
				c := &onefold.Commit{Entry: onefold.Entry{Key: onefold.Key{Scope: "s", ID: "1"}}}
				err := commit.UntilKnown(t.Context(), st, c)
				require.ErrorIs(t, err, tt.want)
				assert.Equal(t, err, c.Err)
				assert.Len(t, st.tries, tt.tries)
				if !errors.Is(tt.want, onefold.ErrUnknown) {
					assert.NotErrorIs(t, err, onefold.ErrUnknown)
				}
			})
		})
	}
}

func TestACommitInDoubtIsToldWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &scripted{answers: one(onefold.ErrUnknown, onefold.ErrUnavailable)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, commit.UntilKnown(ctx, st, &onefold.Commit{}), onefold.ErrUnknown)
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

func TestTheWholeBatchsErrorCountsAndEachTryIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := &onefold.Record{Token: 7}
		st := &scripted{answers: []answer{{whole: onefold.ErrUnknown}, {whole: onefold.ErrUnavailable}, {existing: there}}}
		claim := &onefold.Claim{Token: 7}
		c := &onefold.Commit{Claim: claim, Entry: onefold.Entry{Result: []byte("r")}}
		require.NoError(t, commit.UntilKnown(t.Context(), st, c))
		assert.Same(t, there, c.Existing)
		require.Len(t, st.tries, 3)
		for i, try := range st.tries {
			assert.NotSame(t, c, try)
			assert.Same(t, claim, try.Claim)
			assert.Equal(t, c.Entry, try.Entry)
			if i > 0 {
				assert.NotSame(t, st.tries[i-1], try)
			}
		}
	})
}
