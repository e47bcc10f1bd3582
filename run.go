package onefold

import (
	"context"
	"errors"
	"fmt"
)

// Part is something that runs until its context ends: a consumer, a relay. Run blocks. It returns nil if
// it ended because ctx did, and the reason otherwise.
type Part interface {
	Run(ctx context.Context) error
}

// Run runs parts together and returns when all have ended. When ctx ends, or as soon as one part ends by
// itself, the others are stopped in the order given, each one before the next: name consumers first and
// relays last, so that what the last messages asked for still leaves.
//
// The result joins the errors of all parts; it is nil if all ended because ctx did. Errors of its own:
// [ErrInvalid] if a part is nil; nothing is run then.
func Run(ctx context.Context, parts ...Part) error {
	type running struct {
		stop context.CancelFunc
		done chan struct{}
		err  error
	}
	for i, p := range parts {
		if p == nil {
			return fmt.Errorf("%w: Run: part %d is nil; was the error of its constructor checked?", ErrInvalid, i)
		}
	}
	first := make(chan struct{}, len(parts))
	all := make([]*running, len(parts))
	for i, p := range parts {
		// Each part has its own end, so that stopping keeps the order; values of ctx still reach it.
		own, stop := context.WithCancel(context.WithoutCancel(ctx))
		r := &running{stop: stop, done: make(chan struct{})}
		all[i] = r
		go func() {
			defer close(r.done)
			defer func() { first <- struct{}{} }()
			r.err = ErrGoexit // unless it returns
			r.err = p.Run(own)
		}()
	}
	if len(parts) > 0 {
		select {
		case <-ctx.Done():
		case <-first:
		}
	}
	errs := make([]error, 0, len(all))
	for _, r := range all {
		r.stop()
		<-r.done
		errs = append(errs, r.err)
	}
	return errors.Join(errs...)
}
