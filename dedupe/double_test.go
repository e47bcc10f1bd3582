package dedupe_test

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/onefold-go/onefold"
)

// double is a real store whose answers a test replaces.
type double struct {
	onefold.Store

	// commit, if set, is asked first; handled says that its error is the answer.
	commit func(context.Context, []*onefold.Commit) (handled bool, err error)
	renew  func() error
	renews atomic.Int64
}

func (d *double) Commit(ctx context.Context, batch []*onefold.Commit) error {
	if d.commit != nil {
		if handled, err := d.commit(ctx, batch); handled {
			return err
		}
	}
	return d.Store.Commit(ctx, batch)
}

func (d *double) Renew(ctx context.Context, c *onefold.Claim, lease time.Duration) error {
	d.renews.Add(1)
	if d.renew != nil {
		if err := d.renew(); err != nil {
			return err
		}
	}
	return d.Store.Renew(ctx, c, lease)
}
