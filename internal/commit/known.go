package commit

import (
	"context"
	"errors"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/pace"
)

// UntilKnown commits c and repeats while an earlier try is in doubt, until its outcome is known or ctx
// ends. It sets c.Existing and c.Err and returns c.Err: nil (durable), an error that says what became of the
// entry, an error of the first try that did nothing, or one that wraps [onefold.ErrUnknown] (ctx ended, or
// the store will answer nobody any more, with the doubt still there). Without a doubt nothing is repeated.
//
// What c.Entry points to must not change afterwards if the result wraps [onefold.ErrUnknown].
func UntilKnown(ctx context.Context, st onefold.Store, c *onefold.Commit) error {
	var doubt error // the last ErrUnknown; nil: no try has left a doubt
	pause := pace.Store()
	for {
		// Each try has a Commit of its own: a store that is still busy with an abandoned one may yet write to it.
		try := &onefold.Commit{Claim: c.Claim, Entry: c.Entry}
		err := st.Commit(ctx, []*onefold.Commit{try})
		if err == nil {
			err = try.Err
		}
		if errors.Is(err, onefold.ErrUnknown) {
			doubt = err
		} else if doubt == nil || settles(err) {
			c.Existing, c.Err = try.Existing, err
			return err
		}
		if final(err) || !pace.Sleep(ctx, pause.NextBackOff()) {
			c.Existing, c.Err = nil, doubt
			return doubt
		}
	}
}

// settles reports whether err, the answer to a repeated try, also says what became of the earlier one. The
// entry is the same, so a refusal of the entry itself does. "This try did nothing" does not, nor does busy:
// the earlier try itself may be in the way. An error that the contract does not name proves nothing.
func settles(err error) bool {
	return err == nil || isAny(err, onefold.ErrLost, onefold.ErrConflict, onefold.ErrRejected, onefold.ErrMismatch,
		onefold.ErrTooLarge, onefold.ErrUnsupported, onefold.ErrInvalid)
}

// final reports whether no later try can be answered either.
func final(err error) bool { return isAny(err, onefold.ErrClosed, onefold.ErrDamaged) }

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
