package consumer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
)

// dead makes n dead letters, of IDs "0", "1" and so on.
func (r *rig) dead(b *bug, n int) *running {
	r.t.Helper()
	r.relay()
	w := r.start(r.config(b.handle))
	for i := range n {
		r.publish(fmt.Sprint(i), "x")
	}
	r.awaitCount("acked", n)
	return w
}

// ids reads a selection.
func (r *rig) ids(s *consumer.Selection) (ids []string) {
	r.t.Helper()
	for l, err := range s.Letters(r.ctx) {
		require.NoError(r.t, err)
		ids = append(ids, l.Key.ID)
	}
	slices.Sort(ids)
	return ids
}

func TestASelectionIsFrozen(t *testing.T) {
	r, b := newRig(t), &bug{}
	empty := func() *consumer.Selection {
		r.stream(jetstream.StreamConfig{Name: consumer.DefaultDeadLetterStream, Subjects: []string{consumer.DefaultDeadLetterPrefix + ">"}})
		return r.sel(consumer.LetterFilter{})
	}()
	r.dead(b, 70) // more than two pages
	frozen := r.sel(consumer.LetterFilter{})
	assert.EqualValues(t, 70, frozen.UpTo())
	before := r.ids(frozen)
	require.Len(t, before, 70)
	require.Len(t, slices.Compact(slices.Clone(before)), 70)
	r.publish("late", "x")
	r.awaitCount("acked", 71)
	assert.Equal(t, before, r.ids(frozen))
	assert.Empty(t, r.ids(empty))
	assert.Zero(t, empty.UpTo())

	dry := r.all(frozen, consumer.RedriveOptions{DryRun: true})
	require.Len(t, dry, 70)
	assert.Equal(t, key(dry[0].Letter.Key.ID, 1), dry[0].Key)
	assert.Zero(t, dry[0].Sequence)
	assert.Equal(t, 71, r.stored("IN"), "a dry run publishes nothing")
	b.mend()
	for _, one := range r.all(frozen, consumer.RedriveOptions{PerSecond: 1e6}) {
		assert.NotEqual(t, "late", one.Letter.Key.ID)
	}
	r.awaitCount("acked", 141)
	assert.Len(t, b.runs, 141)

	// What the filter of another process says is the same set.
	same := r.sel(consumer.LetterFilter{UpTo: frozen.UpTo()})
	assert.Equal(t, before, r.ids(same))
	assert.Equal(t, []string{"7"}, r.ids(r.sel(consumer.LetterFilter{ID: "7", Reason: "account", Consumer: "work"})))
	assert.Empty(t, r.ids(r.sel(consumer.LetterFilter{Consumer: "other"})))
}

func TestALetterIsRemovedWhenItsMessageIsStored(t *testing.T) {
	r, b := newRig(t), &bug{}
	w := r.dead(b, 3)
	large := &nats.Msg{Subject: "in.a", Data: make([]byte, 1<<20-100), Header: nats.Header{onefold.HeaderID: {"large"}}}
	b.mend()
	selection := r.sel(consumer.LetterFilter{ID: "1"})
	done := r.all(selection, consumer.RedriveOptions{Remove: true})
	require.Len(t, done, 1)
	assert.True(t, done[0].Removed)
	assert.Equal(t, 2, r.stored(consumer.DefaultDeadLetterStream))
	assert.Empty(t, r.ids(selection), "it is gone from the selection")
	r.awaitCount("acked", 4)
	w.end()

	// All parts of a letter go, and none of them is left if it is removed twice.
	b.mended = false
	r.start(r.config(b.handle))
	r.send(large)
	r.awaitCount("acked", 5)
	require.Equal(t, 5, r.stored(consumer.DefaultDeadLetterStream))
	letter, err := r.letters(onefold.Clock{}).Get(r.ctx, 5)
	require.NoError(t, err)
	assert.Len(t, letter.Message.Data, len(large.Data))
	_, err = r.letters(onefold.Clock{}).Redrive(r.ctx, letter, consumer.RedriveOptions{Remove: true})
	require.ErrorIs(t, err, onefold.ErrTooLarge, "there is no room for the headers of a redrive")
	assert.Equal(t, 5, r.stored(consumer.DefaultDeadLetterStream))
}

func TestALargeLetterIsPutTogetherAndRedriven(t *testing.T) {
	r, b := newRig(t), &bug{}
	r.dead(b, 1)
	body := strings.Repeat("x", 1<<20-1500)
	r.send(&nats.Msg{Subject: "in.a", Data: []byte(body), Header: nats.Header{onefold.HeaderID: {"large"}, "Trace": {strings.Repeat("t", 900)}}})
	r.awaitCount("acked", 2)
	require.Equal(t, 3, r.stored(consumer.DefaultDeadLetterStream))
	b.mend()
	d := r.letters(onefold.Clock{})
	for _, part := range []uint64{2, 3} {
		letter, err := d.Get(r.ctx, part)
		require.NoError(t, err)
		assert.Equal(t, "large", letter.Key.ID)
	}
	assert.Equal(t, []string{"0", "large"}, r.ids(r.sel(consumer.LetterFilter{})))
	selection := r.sel(consumer.LetterFilter{ID: "large"})
	done := r.all(selection, consumer.RedriveOptions{Remove: true})
	require.Len(t, done, 1)
	r.awaitCount("acked", 3)
	assert.Equal(t, body, string(b.seen[2].Data))
	assert.Equal(t, b.seen[1].Header["Trace"], b.seen[2].Header["Trace"])
	assert.Equal(t, 1, r.stored(consumer.DefaultDeadLetterStream))
}

func TestWhatIsNoLetterIsToldAndDoesNotEndTheReading(t *testing.T) {
	r, b := newRig(t), &bug{mended: true}
	r.stream(jetstream.StreamConfig{Name: consumer.DefaultDeadLetterStream, Subjects: []string{consumer.DefaultDeadLetterPrefix + ">"}})
	stray := consumer.DefaultDeadLetterPrefix + "stray"
	r.send(&nats.Msg{Subject: stray, Data: []byte("x")})
	r.send(&nats.Msg{Subject: stray, Header: nats.Header{consumer.HeaderDeadPart: {"2/3"}, consumer.HeaderDeadOf: {"lost"}}})
	b.mended = false
	r.dead(b, 2)
	var says []string
	read := 0
	for l, err := range r.sel(consumer.LetterFilter{ID: "1"}).Letters(r.ctx) {
		if err != nil {
			require.ErrorIs(t, err, consumer.ErrNotLetter)
			says = append(says, err.Error())
			continue
		}
		assert.Equal(t, "1", l.Key.ID)
		read++
	}
	assert.Equal(t, 1, read)
	assert.Equal(t, []string{
		"not a dead letter: message 1 of stream ONEFOLD_DEAD: header Onefold-Dead-Stream is missing",
		"not a dead letter: message 2 of stream ONEFOLD_DEAD: of 3 parts 1, 3 are missing; they may have been removed, or are not sent yet",
	}, says)
	b.mend()
	redriven, bad := 0, 0
	for _, err := range r.sel(consumer.LetterFilter{}).Redrive(r.ctx, consumer.RedriveOptions{}) {
		if redriven++; err != nil {
			bad++
		}
	}
	assert.Equal(t, []int{4, 2}, []int{redriven, bad})
	_, err := r.letters(onefold.Clock{}).Get(r.ctx, 1)
	require.ErrorIs(t, err, consumer.ErrNotLetter)
	_, err = r.letters(onefold.Clock{}).Get(r.ctx, 99)
	require.ErrorIs(t, err, jetstream.ErrMsgNotFound)
}

func TestReadingEndsWithWhatStopsIt(t *testing.T) {
	r, b := newRig(t), &bug{}
	r.dead(b, 40)
	selection := r.sel(consumer.LetterFilter{})
	read := 0
	for _, err := range selection.Letters(r.ctx) {
		require.NoError(t, err)
		if read++; read == 5 {
			break
		}
	}
	assert.Equal(t, 5, read)

	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	read = 0
	var last error
	for _, err := range selection.Redrive(ctx, consumer.RedriveOptions{PerSecond: 1e-3}) {
		read++
		last = err
		cancel() // the next one would wait for a quarter of an hour
	}
	assert.Equal(t, 1, read)
	require.NoError(t, last)
	for _, err := range selection.Letters(ctx) {
		last = err
	}
	require.ErrorIs(t, last, context.Canceled)
}

func TestAReaderRefusesWhatItCannotRead(t *testing.T) {
	r := newRig(t)
	_, err := consumer.NewDeadLetters(nil, consumer.DeadLettersConfig{})
	require.ErrorIs(t, err, onefold.ErrInvalid)
	_, err = consumer.NewDeadLetters(r.js, consumer.DeadLettersConfig{Stream: "a b"})
	require.ErrorIs(t, err, onefold.ErrInvalid)
	d := r.letters(onefold.Clock{})
	_, err = d.Select(r.ctx, consumer.LetterFilter{})
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
	_, err = d.Get(r.ctx, 1)
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
	r.stream(jetstream.StreamConfig{Name: consumer.DefaultDeadLetterStream, Subjects: []string{"dead"}, Retention: jetstream.WorkQueuePolicy})
	_, err = d.Select(r.ctx, consumer.LetterFilter{})
	require.ErrorIs(t, err, onefold.ErrInvalid)
	require.ErrorContains(t, err, "work queue")
}
