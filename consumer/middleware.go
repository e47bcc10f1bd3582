package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onefold-go/onefold"
)

// Middleware wraps a handler in another one: the one form in which behaviour is added around handlers. A
// function of this type made elsewhere serves as well:
//
//	func logged(next onefold.Handler) onefold.Handler {
//		return func(ctx context.Context, msg *onefold.Message, fx *onefold.Effects) error {
//			err := next(ctx, msg, fx)
//			slog.InfoContext(ctx, "handled", "key", fx.Key(), "err", err)
//			return err
//		}
//	}
//
// It runs as a part of the handler, once for each run and not once for each message, and what it does outside
// fx happens as often. What it returns decides, so it passes on what it does not understand: an error that is
// replaced loses the marks of [onefold.Permanent], [onefold.RetryAfter] and [onefold.ErrConflict] unless it is
// wrapped with %w.
type Middleware func(next onefold.Handler) onefold.Handler

// Chain wraps h. The first middleware is the outermost: it is entered first and left last.
//
//	Chain(h, a, b)   // a begins, b begins, h runs, b ends, a ends
//
// Without a middleware it is h. Errors: [onefold.ErrInvalid], if h or a middleware is nil, or a middleware
// returns nil.
func Chain(h onefold.Handler, outermostFirst ...Middleware) (onefold.Handler, error) {
	if h == nil {
		return nil, fmt.Errorf("%w: chain: the handler is nil; set it, for example with consumer.JSON", onefold.ErrInvalid)
	}
	for i := len(outermostFirst) - 1; i >= 0; i-- {
		if outermostFirst[i] == nil {
			return nil, fmt.Errorf("%w: chain: middleware %d is nil; was the error of its constructor checked?", onefold.ErrInvalid, i)
		}
		if h = outermostFirst[i](h); h == nil {
			return nil, fmt.Errorf("%w: chain: middleware %d returned a nil handler; it must return one that calls the next", onefold.ErrInvalid, i)
		}
	}
	return h, nil
}

// ErrTimeout is the cause of the end of a context that [Timeout] has ended, and in the error of its run.
var ErrTimeout = errors.New("run took too long")

// Timeout ends the context of each run d after its start. A run that then returns an error has failed with it
// and [ErrTimeout], and is retried like any other: use it for handlers that call what may hang, with a d well
// below what the calls need when all is well. A run that finishes its work nevertheless and returns nil is
// committed. The handler has to watch its context; nothing can stop one that does not.
//
// Errors: [onefold.ErrInvalid], if d is shorter than a millisecond.
func Timeout(d time.Duration) (Middleware, error) {
	if d < minDuration {
		return nil, fmt.Errorf("%w: timeout is %v; it must be at least %v (is the unit right?)", onefold.ErrInvalid, d, minDuration)
	}
	return func(next onefold.Handler) onefold.Handler {
		if next == nil {
			return nil
		}
		return func(ctx context.Context, msg *onefold.Message, fx *onefold.Effects) error {
			cause := fmt.Errorf("%w: %v", ErrTimeout, d) // of this run alone: timeouts may be nested
			own, cancel := context.WithTimeoutCause(ctx, d, cause)
			defer cancel()
			err := next(own, msg, fx)
			if err != nil && errors.Is(context.Cause(own), cause) {
				return fmt.Errorf("%w: %w", cause, err)
			}
			return err
		}
	}, nil
}

// GiveUpAfter makes a dead letter of a message whose attempt number n fails, before Config.MaxAttempts would:
// for one route among several whose work is not worth as many. It counts what Effects.Attempt counts: runs that
// ended because of a conflict, a lost claim or the end of the consumer are none.
//
// In a [Chain] it stands before [Timeout], so that a timeout is a failure for it. Errors: [onefold.ErrInvalid],
// if n is less than 1.
func GiveUpAfter(n int) (Middleware, error) {
	if n < 1 {
		return nil, fmt.Errorf("%w: give up after %d attempts; it must be at least 1", onefold.ErrInvalid, n)
	}
	return func(next onefold.Handler) onefold.Handler {
		if next == nil {
			return nil
		}
		return func(ctx context.Context, msg *onefold.Message, fx *onefold.Effects) error {
			err := next(ctx, msg, fx)
			switch {
			case err == nil, fx.Attempt() < n, onefold.IsPermanent(err):
				return err
			case ctx.Err() != nil, errors.Is(err, onefold.ErrConflict):
				return err // says nothing of the message
			}
			return onefold.Permanent(fmt.Errorf("attempt %d of %d: %w", fx.Attempt(), n, err))
		}
	}, nil
}
