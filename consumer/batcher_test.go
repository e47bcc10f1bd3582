package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onefold-go/onefold"
)

// handled runs one message through b in a goroutine of its own.
type handled struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	err    error
	done   chan struct{}
}

func send(b *batcher, id string, attempt int) *handled {
	h := &handled{done: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	go func() {
		defer close(h.done)
		h.err = onefold.ErrGoexit
		h.err = b.handle(h.ctx, &onefold.Message{Data: []byte(id)}, onefold.NewEffects(onefold.RunInfo{Attempt: attempt}, nil))
	}()
	synctest.Wait() // so that they arrive in order
	return h
}

func (h *handled) ended() bool {
	synctest.Wait()
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// calls collects what a batch handler was called with.
type calls struct {
	mu  sync.Mutex
	all []string
}

func (c *calls) note(items []*BatchItem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := ""
	for _, i := range items {
		text += string(i.Message.Data)
	}
	c.all = append(c.all, text)
}

func TestABatchIsCalledWhenItIsFullOrItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c calls
		b := newBatcher(Batch{Size: 3, Wait: time.Second, Handler: func(_ context.Context, items []*BatchItem) error {
			c.note(items)
			return nil
		}}, time.Minute)
		for _, id := range []string{"a", "b", "c"} {
			send(b, id, 1)
		}
		assert.Equal(t, []string{"abc"}, c.all, "full at once")
		d, e := send(b, "d", 1), send(b, "e", 1)
		assert.False(t, d.ended())
		<-d.done // a second later, of the clock of synctest
		assert.True(t, e.ended())
		send(b, "f", 2)
		assert.Equal(t, []string{"abc", "de", "f"}, c.all, "what has failed before waits for nobody")
		g := send(b, "g", 1)
		send(b, "h", 3)
		send(b, "i", 1)
		<-g.done
		assert.Equal(t, []string{"abc", "de", "f", "h", "gi"}, c.all, "and disturbs no batch that fills up")
	})
}

func TestEachItemHasItsOwnOutcomeOrThatOfTheCall(t *testing.T) {
	own, whole := errors.New("own"), errors.New("whole")
	for name, c := range map[string]struct {
		end  func() error
		want error
		text string
	}{
		"success": {func() error { return nil }, nil, ""},
		"error":   {func() error { return whole }, whole, "whole"},
		"panic":   {func() error { panic(whole) }, whole, "handler panicked: whole"},
		"Goexit":  {func() error { runtime.Goexit(); return nil }, onefold.ErrGoexit, onefold.ErrGoexit.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBatcher(Batch{Size: 3, Wait: time.Second, Handler: func(_ context.Context, items []*BatchItem) error {
					items[1].Err = own
					items[0], items[1], items[2] = nil, nil, nil // what it does to the slice is its own affair
					return c.end()
				}}, time.Minute)
				all := []*handled{send(b, "a", 1), send(b, "b", 1), send(b, "c", 1)}
				for i, h := range all {
					assert.True(t, h.ended())
					switch {
					case i == 1:
						assert.ErrorIs(t, h.err, own)
					case c.want == nil:
						assert.NoError(t, h.err)
					default:
						assert.ErrorIs(t, h.err, c.want)
						assert.EqualError(t, h.err, c.text)
					}
				}
			})
		})
	}
}

func TestTheContextOfABatchEndsWhenThoseOfAllItsMessagesHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		causes := []error{errors.New("first"), errors.New("second")}
		b := newBatcher(Batch{Size: 2, Wait: time.Second, Handler: func(ctx context.Context, _ []*BatchItem) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}}, time.Minute)
		x, y := send(b, "x", 1), send(b, "y", 1)
		x.cancel(causes[0])
		assert.False(t, x.ended(), "the leader makes the call for the other one, too")
		assert.False(t, y.ended())
		y.cancel(causes[1])
		assert.True(t, x.ended() && y.ended())
		assert.ErrorIs(t, x.err, causes[1])
		assert.ErrorIs(t, y.err, causes[1])
	})
}

func TestACallThatIgnoresItsContextKeepsItsLeaderAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, cause := make(chan struct{}), errors.New("overstayed")
		b := newBatcher(Batch{Size: 2, Wait: time.Second, Handler: func(context.Context, []*BatchItem) error {
			<-release
			return nil
		}}, time.Minute)
		x, y := send(b, "x", 1), send(b, "y", 1)
		x.cancel(cause)
		y.cancel(cause)
		assert.False(t, y.ended(), "it may still obey")
		<-y.done
		assert.ErrorIs(t, y.err, errBatchOutlived)
		assert.ErrorIs(t, y.err, cause)
		assert.False(t, x.ended())
		close(release)
		assert.True(t, x.ended())
	})
}

func TestALeaderThatIsToldToStopWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBatcher(Batch{Size: 9, Wait: time.Hour, Handler: func(ctx context.Context, _ []*BatchItem) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}}, 24*time.Hour)
		x := send(b, "x", 1)
		x.cancel(fmt.Errorf("stop"))
		assert.True(t, x.ended())
		assert.EqualError(t, x.err, "stop")
	})
}
