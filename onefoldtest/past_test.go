package onefoldtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/onefoldtest"
)

func TestTroubleMeetsAMessageThatHasFailedBeforeWhileItRuns(t *testing.T) {
	down := true
	got := judged(t, func(tb testing.TB) {
		pay := onefoldtest.NewProbe("pay")
		kit := onefoldtest.New(tb, consumer.Config{Handler: func(context.Context, *onefold.Message, *onefold.Effects) error {
			if down {
				return errors.New("gateway down")
			}
			pay.Called("")
			return nil
		}}, pay)
		m := kit.Message("in", "a", 1)
		assert.True(t, kit.Deliver(m).Again)
		down = false
		kit.Survives(m)
	})
	assert.Contains(t, got, `crash at [handled]: the handler ran 3 times for TEST/handler/a and called "pay" 2 times without an idempotency key`)
}

func TestEachTroubleStartsWithThePastAsItWas(t *testing.T) {
	runs := 0
	kit := onefoldtest.New(t, consumer.Config{Handler: func(ctx context.Context, msg *onefold.Message, fx *onefold.Effects) error {
		if msg.Subject == "past" {
			runs++
			fx.Publish("out", "past")
			_, err := count(ctx, fx, "numbers", "orders")
			return err
		}
		n, err := count(ctx, fx, "numbers", "orders")
		fx.Result(n)
		if fx.Attempt() == 1 {
			return errors.New("not yet")
		}
		return err
	}})
	start := kit.Clock().Wall()
	kit.Seed("numbers", "orders", 40)
	kit.Run(kit.Message("past", "p", 1))
	m := kit.Message("in", "a", 1)
	kit.Deliver(m)
	kit.Advance(time.Hour)
	kit.Survives(m)
	assert.Equal(t, 1, runs, "the past is not gone through again")
	assert.Equal(t, time.Hour, kit.Clock().Wall().Sub(start), "the time of the troubles is theirs")
	kit.Result(m, 42)
	kit.State("numbers", "orders", 42)
	kit.Published("out", "past")
}

func TestSurvivesMayBeAskedWhileAHandlerRuns(t *testing.T) {
	kit := onefoldtest.New(t, consumer.Config{Handler: consumer.JSON(bill)})
	first, second := kit.Message("orders.new", "1", Order{ID: "1"}), kit.Message("orders.new", "2", Order{ID: "2"})
	kit.During(first, func() { kit.Survives(second) })
	kit.Published("charges.create", Charge{Order: "2"}, Charge{Order: "1"})
}
