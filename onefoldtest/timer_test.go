package onefoldtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/onefoldtest"
)

func TestTimersAreReplacedCancelledAndSetAgainByOtherMessages(t *testing.T) {
	remind := func(_ context.Context, msg *onefold.Message, fx *onefold.Effects) error {
		order := string(msg.Data)
		fx.Emit(onefold.Effect{
			Target: "reminders", Payload: []byte(msg.Subject), Timer: "reminder/" + order,
			NotBefore: msg.Time.Add(time.Hour), Cancel: msg.Subject == "paid",
		})
		return nil
	}
	kit := onefoldtest.New(t, consumer.Config{Handler: remind})
	for _, m := range []struct{ subject, id, order string }{
		{"placed", "1", "7"}, {"placed", "2", "8"}, {"deferred", "3", "8"}, {"paid", "4", "7"},
	} {
		kit.Run(kit.Message(m.subject, m.id, []byte(m.order)))
	}
	kit.Published("reminders")
	kit.Advance(2 * time.Hour)
	kit.Published("reminders", []byte("deferred"))
	kit.Run(kit.Message("placed again", "5", []byte("8")))
	kit.Advance(2 * time.Hour)
	kit.Published("reminders", []byte("deferred"), []byte("placed again"))
}
