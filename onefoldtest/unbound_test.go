package onefoldtest_test

import (
	"context"
	"testing"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/onefoldtest"
)

func TestAConfigWithAnOrderAndARateIsTakenAsItIs(t *testing.T) {
	kit := onefoldtest.New(t, consumer.Config{
		OrderBy: func(m *onefold.Message) string { return m.Subject },
		Handler: func(_ context.Context, m *onefold.Message, fx *onefold.Effects) error {
			fx.Publish("out", m.Data)
			return nil
		},
	})
	m := kit.Message("in", "1", "x")
	kit.Survives(m)
	kit.Succeeded(m)
}
