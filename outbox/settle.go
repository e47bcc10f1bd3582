package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/pace"
)

// settleUntilKnown records a batch and repeats while the store cannot be reached or has not said if it did, telling
// notify of it. When ctx ends first the rows stay as they are: they come again, under the same IDs.
func settleUntilKnown(ctx context.Context, st onefold.Store, batch []onefold.Settlement, notify func(error)) error {
	err := backoff.RetryNotify(func() error {
		err := st.Settle(ctx, batch)
		if err == nil || isAny(err, onefold.ErrUnknown, onefold.ErrUnavailable) {
			return err
		}
		return backoff.Permanent(err)
	}, backoff.WithContext(pace.Store(), ctx), func(err error, _ time.Duration) { notify(err) })
	if err != nil {
		return fmt.Errorf("settle %d rows: %w", len(batch), err)
	}
	return nil
}
