package boltstore_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync/atomic"

	"github.com/onefold-go/onefold"
)

// class is the name of the first error of the contract that err is, or its text.
func class(err error) string {
	if err == nil {
		return ""
	}
	for _, c := range []struct {
		is   error
		name string
	}{
		{onefold.ErrUnknown, "unknown"}, {onefold.ErrLost, "lost"}, {onefold.ErrConflict, "conflict"}, {onefold.ErrBusy, "busy"},
		{onefold.ErrMismatch, "mismatch"}, {onefold.ErrTooLarge, "too large"}, {onefold.ErrFull, "full"},
		{onefold.ErrUnavailable, "unavailable"}, {onefold.ErrDamaged, "damaged"}, {onefold.ErrClosed, "closed"},
		{onefold.ErrUnsupported, "unsupported"}, {onefold.ErrInvalid, "invalid"}, {onefold.ErrNotFound, "not found"},
		{context.Canceled, "cancelled"},
	} {
		if errors.Is(err, c.is) {
			return c.name
		}
	}
	return err.Error()
}

func showBytes(b []byte) string {
	if b == nil {
		return "none"
	}
	if len(b) > 100 {
		return fmt.Sprintf("%q... of %d bytes with checksum %08x", b[:10], len(b), crc32.ChecksumIEEE(b))
	}
	return fmt.Sprintf("%q", b)
}

// showRecord is what two stores must agree on. The token is a store's own; the key of an erased record is
// looked at where the contract says what it is.
func showRecord(r *onefold.Record) string {
	if r == nil {
		return "no record"
	}
	key := r.Key.String()
	if r.Erased {
		key = "erased"
	}
	return fmt.Sprintf("record %s %v %v result %s kept %v at %d unsettled %d",
		key, r.Fingerprint, r.Outcome, showBytes(r.Result), r.ResultKept, r.At.UnixNano(), r.Unsettled)
}

func showGrant(g onefold.Grant, err error) string {
	if err != nil {
		return class(err)
	}
	s := fmt.Sprintf("%v held %v %s", g.Verdict, g.Held, showRecord(g.Record))
	if g.Claim != nil {
		s += fmt.Sprintf(" claim of %v for %v", g.Claim.Key, g.Claim.Lease)
	}
	return s
}

func showHistory(h onefold.History) string {
	first := h.First.UnixNano()
	if h.First.IsZero() {
		first = 0
	}
	return fmt.Sprintf("%d starts, %d failures, first at %d, last %q", h.Starts, h.Failures, first, h.LastReason)
}

func showValue(v onefold.Value, err error) string {
	return fmt.Sprintf("%q present %v %s", v.Data, v.Version > 0, class(err))
}

func showLookup(r onefold.Record, err error) string {
	if err != nil {
		return class(err)
	}
	return showRecord(&r)
}

func showEffect(f *onefold.Effect) string {
	return fmt.Sprintf("%s %s to %s %q header %v order %q timer %q not before %d",
		f.ID, f.Kind, f.Target, f.Payload, f.Header, f.OrderKey, f.Timer, f.NotBefore.UnixNano())
}

// impatient is a context that ends as soon as somebody waits for it, and not before: a call that can be
// served at once is, and one that would block comes back. It is for calls that look at Err once before.
type impatient struct {
	context.Context
	asked atomic.Int32
}

var over = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func newImpatient() *impatient { return &impatient{Context: context.Background()} }

func (c *impatient) Done() <-chan struct{} { return over }

func (c *impatient) Err() error {
	if c.asked.Add(1) == 1 {
		return nil
	}
	return context.Canceled
}
