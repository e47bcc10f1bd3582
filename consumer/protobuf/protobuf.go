// Package protobuf makes handlers of functions that take a Protocol Buffers message, as package consumer does
// for JSON. It stands by itself so that only programs that import it depend on google.golang.org/protobuf.
//
//	c, err := consumer.New(js, st, consumer.Config{
//		Stream: "ORDERS", Name: "billing",
//		Handler: protobuf.Handler(func(ctx context.Context, o *orderpb.Order, fx *onefold.Effects) error {
//			body, err := proto.Marshal(chargeFor(o))
//			if err != nil {
//				return onefold.Permanent(err)
//			}
//			fx.Publish("charges.create", body) // bytes leave as they are
//			return nil
//		}),
//	})
//
// What is promised is what package consumer promises of every handler: the message may be handled several times, what it
// asks for through fx takes effect once.
//
// Fingerprints cover the bytes of a body, and two encodings of one Protocol Buffers message may differ, even
// made by one program. A sender that tries again should send the bytes of its first try; where it cannot, give
// dedupe.Selected a function that leaves out what changes.
//
// It imports package onefold and google.golang.org/protobuf.
package protobuf

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/onefold-go/onefold"
)

// Handler makes a handler of a function that takes the message body decoded as the generated message type T. A
// body that does not decode, or that lacks a required field, ends as a dead letter at once, with the decode
// error as its reason and the raw bytes as its body. Unknown fields are kept in the message, and an empty body
// is a message without fields. The function gets a message of its own for each run and may keep it.
//
// Handler(nil) is nil, which consumer.New refuses.
func Handler[T any, M interface {
	*T
	proto.Message
}](handle func(ctx context.Context, m M, fx *onefold.Effects) error) onefold.Handler {
	if handle == nil {
		return nil
	}
	return func(ctx context.Context, msg *onefold.Message, fx *onefold.Effects) error {
		m := M(new(T))
		if err := proto.Unmarshal(msg.Data, m); err != nil {
			return onefold.Permanent(fmt.Errorf("decode body as %s: %w", m.ProtoReflect().Descriptor().FullName(), err))
		}
		return handle(ctx, m, fx)
	}
}
