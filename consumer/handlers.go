package consumer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/onefold-go/onefold"
)

// JSON makes a handler of a function that takes the message body decoded as JSON. A body that does not
// decode ends as a dead letter at once, with the decode error as its reason and the raw bytes as its body.
// JSON(nil) is nil, which New refuses.
func JSON[T any](handle func(ctx context.Context, v T, fx *onefold.Effects) error) onefold.Handler {
	if handle == nil {
		return nil
	}
	return func(ctx context.Context, msg *onefold.Message, fx *onefold.Effects) error {
		var v T
		if err := json.Unmarshal(msg.Data, &v); err != nil {
			return onefold.Permanent(fmt.Errorf("decode body as %T: %w", v, err))
		}
		return handle(ctx, v, fx)
	}
}

// Raw makes a handler of a function that takes the message body as it is. The function must not change
// or keep it. Raw(nil) is nil, which New refuses.
func Raw(handle func(ctx context.Context, body []byte, fx *onefold.Effects) error) onefold.Handler {
	if handle == nil {
		return nil
	}
	return func(ctx context.Context, msg *onefold.Message, fx *onefold.Effects) error {
		return handle(ctx, msg.Data, fx)
	}
}
