package outbox

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/onefold-go/onefold"
)

// JSON makes a [Function.Do] of a function that takes the payload decoded as JSON, as [onefold.Effects.Call] encodes
// what it is given. Each call gets a value of its own; what do returns is returned as it is.
//
// A payload that does not decode, an empty one included, makes no call: the row is parked at once, with its payload and
// the decode error as its reason, and may be resumed ([Resume]) for a function that can read it. Fields that T does not have are
// passed over, so that a handler may be deployed with new ones before the function.
//
// JSON(nil) is nil, which [NewRelay] refuses.
func JSON[T any](do func(ctx context.Context, v T, c Call) error) func(ctx context.Context, c Call) error {
	if do == nil {
		return nil
	}
	return func(ctx context.Context, c Call) error {
		var v T
		if err := json.Unmarshal(c.Payload, &v); err != nil {
			return onefold.Permanent(fmt.Errorf("decode the payload as %T, %d bytes: %w", v, len(c.Payload), err))
		}
		return do(ctx, v, c)
	}
}
