package onefoldtest_test

import (
	"context"
	"testing"

	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/onefoldtest"
)

func TestABatchHandlerIsTriedWithOneMessageAtATime(t *testing.T) {
	k := onefoldtest.New(t, consumer.Config{Batch: &consumer.Batch{Handler: func(_ context.Context, items []*consumer.BatchItem) error {
		for _, i := range items {
			i.Effects.Publish("out", i.Message.Data)
		}
		return nil
	}}})
	k.Survives(k.Message("in", "1", "x"))
}
