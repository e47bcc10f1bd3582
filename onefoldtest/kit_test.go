package onefoldtest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/dedupe"
	"github.com/onefold-go/onefold/onefoldtest"
)

// failed is a recorder for tests: it keeps what it is told.
type failed struct {
	testing.TB
	texts []string
}

func (f *failed) Helper()           {}
func (f *failed) Cleanup(do func()) { f.TB.Cleanup(do) }

func (f *failed) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}

func (f *failed) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	panic(f)
}

// judged runs do against a recorder and returns what it was told.
func judged(t *testing.T, do func(tb testing.TB)) string {
	t.Helper()
	f := &failed{TB: t}
	func() {
		defer func() {
			if v := recover(); v != nil && v != any(f) {
				panic(v)
			}
		}()
		do(f)
	}()
	return strings.Join(f.texts, "\n")
}

// count adds one to a number of state.
func count(ctx context.Context, fx *onefold.Effects, table, key string) (int, error) {
	data, _, err := fx.Get(ctx, table, key)
	if err != nil {
		return 0, err
	}
	n, _ := strconv.Atoi(string(data)) // absent counts as 0
	fx.Put(table, key, []byte(strconv.Itoa(n+1)))
	return n + 1, nil
}

func TestHandlersThatAskThroughFxSurvive(t *testing.T) {
	failing := map[string]int{}
	for name, handler := range map[string]onefold.Handler{
		"message": func(_ context.Context, msg *onefold.Message, fx *onefold.Effects) error {
			fx.Emit(onefold.Effect{Target: "out", Payload: msg.Data, Header: onefold.Header{"A": {"1", "2"}}, OrderKey: "k"})
			fx.Publish("out", msg.Data)
			fx.Result("ok")
			return nil
		},
		"state": func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
			n, err := count(ctx, fx, "numbers", "orders")
			fx.Publish("numbered", n)
			return err
		},
		"timer": func(_ context.Context, msg *onefold.Message, fx *onefold.Effects) error {
			fx.Emit(onefold.Effect{Target: "reminders", Timer: "overdue " + fx.Key().ID, NotBefore: msg.Time.Add(time.Hour)})
			return nil
		},
		"calls": func(_ context.Context, msg *onefold.Message, fx *onefold.Effects) error {
			fx.Call("charge", msg.Sequence)
			fx.CallOnce("fax", fx.Key().ID)
			return nil
		},
		"nothing": func(context.Context, *onefold.Message, *onefold.Effects) error { return nil },
		"failing twice": func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
			fx.Publish("out", "x")
			if failing[fx.Key().ID]++; failing[fx.Key().ID]%3 != 0 {
				return errors.New("not yet")
			}
			return nil
		},
		"permanent": func(context.Context, *onefold.Message, *onefold.Effects) error {
			return onefold.Permanent(errors.New("never"))
		},
		"panicking": func(context.Context, *onefold.Message, *onefold.Effects) error { panic("always") },
		"exiting":   func(context.Context, *onefold.Message, *onefold.Effects) error { runtime.Goexit(); return nil },
		"bad effect": func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
			fx.Publish("a b", 1)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit := onefoldtest.New(t, consumer.Config{Handler: handler, MaxAttempts: 4})
			kit.Survives(kit.Message("in", "a", "body"), kit.Message("in", "b", "body"))
		})
	}
}

func TestMessagesWithoutAnIDOrWithThatOfTheirPositionSurviveToo(t *testing.T) {
	kit := onefoldtest.New(t, consumer.Config{Handler: consumer.JSON(bill)})
	nameless := kit.Message("orders.new", "", Order{ID: "7"})
	kit.Survives(nameless)
	kit.DeadLetter(nameless, "missing id")
	kit = onefoldtest.New(t, consumer.Config{Handler: consumer.JSON(bill), ID: dedupe.FirstOf(dedupe.DefaultID, dedupe.PositionID)})
	kit.Survives(kit.Message("orders.new", "", Order{ID: "7"}))
	kit.Published("charges.create", Charge{Order: "7"})
}

func TestMistakesAreCaughtWithTheRemedy(t *testing.T) {
	fresh := 0
	handlers := map[string]struct {
		handler onefold.Handler
		want    []string
	}{
		"payload from outside": {func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
			fresh++
			fx.Publish("out", strings.Repeat("x", 1000)+strconv.Itoa(fresh))
			return nil
		}, []string{"run 2 of TEST/handler/a", "- effect 0, payload: ...xxx", `+ effect 0, payload: ...xxx`, "from the message"}},
		"another number of effects": {func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
			for range fresh % 2 {
				fx.Publish("out", "x")
			}
			fresh++
			return nil
		}, []string{"effect 0, message: out"}},
		"headers": {func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
			fresh++
			fx.Emit(onefold.Effect{Target: "out", Header: onefold.Header{"Try": {strconv.Itoa(fresh)}}})
			return nil
		}, []string{"effect 0, header Try: "}},
		"writes": {func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
			fresh++
			fx.Put("t", "k", []byte{0x80 | byte(fresh)})
			return nil
		}, []string{`- state "t"/"k": "\x`}},
		"result": {func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
			fresh++
			fx.Result(fresh)
			return nil
		}, []string{"- result: "}},
	}
	for name, c := range handlers {
		t.Run(name, func(t *testing.T) {
			got := judged(t, func(tb testing.TB) {
				kit := onefoldtest.New(tb, consumer.Config{Handler: c.handler})
				kit.Survives(kit.Message("in", "a", 1))
			})
			for _, part := range c.want {
				assert.Contains(t, got, part)
			}
		})
	}
}

func TestWhatASharedVariableDecidesIsCaughtEvenIfRunsAgree(t *testing.T) {
	fresh := 0
	got := judged(t, func(tb testing.TB) {
		kit := onefoldtest.New(tb, consumer.Config{Handler: func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
			if fx.Attempt() == 1 {
				fresh++ // counts every first attempt, the runs that nobody commits too
			}
			fx.Publish("out", fresh > 3)
			return nil
		}})
		kit.Survives(kit.Message("in", "a", 1))
	})
	assert.NotEmpty(t, got)
}

func TestCallsOfAProbeAreJudgedByTheirKeys(t *testing.T) {
	fresh := 0
	for name, c := range map[string]struct {
		pass func(fx *onefold.Effects) []string
		want string // "" for none
	}{
		"the right key":         {func(fx *onefold.Effects) []string { return []string{fx.IdempotencyKey("pay")} }, ""},
		"several names":         {func(fx *onefold.Effects) []string { return []string{fx.IdempotencyKey("b"), fx.IdempotencyKey("a")} }, ""},
		"a stable key":          {func(fx *onefold.Effects) []string { return []string{fx.Key().ID} }, ""},
		"no call":               {func(*onefold.Effects) []string { return nil }, ""},
		"no key":                {func(*onefold.Effects) []string { return []string{""} }, `called "pay" 2 times without an idempotency key`},
		"a fresh key":           {func(*onefold.Effects) []string { fresh++; return []string{strconv.Itoa(fresh)} }, `passed other idempotency keys to "pay" in each: run 1 passed [2], run 2 [3]`},
		"one right and one not": {func(fx *onefold.Effects) []string { return []string{fx.IdempotencyKey("pay"), ""} }, `called "pay" 2 times without`},
	} {
		t.Run(name, func(t *testing.T) {
			got := judged(t, func(tb testing.TB) {
				pay := onefoldtest.NewProbe("pay")
				kit := onefoldtest.New(tb, consumer.Config{Handler: func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
					for _, key := range c.pass(fx) {
						pay.Called(key)
					}
					return nil
				}}, pay)
				kit.Survives(kit.Message("in", "a", 1))
			})
			if c.want == "" {
				assert.Empty(t, got)
				return
			}
			assert.Contains(t, got, c.want)
			assert.Contains(t, got, onefold.Key{Scope: "TEST/handler", ID: "a"}.IdempotencyKey("pay"), "the key to pass is named")
			assert.Equal(t, 1, strings.Count(got, "What a handler calls directly"), "it is said once")
		})
	}
}

func TestACallFromAGoroutineThatIsLeftBehindIsCaught(t *testing.T) {
	got := judged(t, func(tb testing.TB) {
		pay := onefoldtest.NewProbe("pay")
		var left sync.WaitGroup
		may := make(chan struct{})
		kit := onefoldtest.New(tb, consumer.Config{Handler: func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
			left.Go(func() { <-may; pay.Called(fx.IdempotencyKey("pay")) })
			return nil
		}}, pay)
		kit.Run(kit.Message("in", "a", 1))
		close(may)
		left.Wait()
		kit.Advance(0)
	})
	assert.Contains(t, got, `"pay" was called while no handler ran`)
}

func TestAFailingRunIsFollowedThroughItsRetries(t *testing.T) {
	tries := 0
	kit := onefoldtest.New(t, consumer.Config{MaxAttempts: 3, Handler: func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		tries++
		fx.Publish("out", "x")
		return onefold.RetryAfter(time.Minute, fmt.Errorf("try %d", tries))
	}})
	m := kit.Message("in", "a", 1)
	d := kit.Deliver(m)
	assert.True(t, d.Again)
	assert.Equal(t, time.Minute, d.Delay)
	assert.Equal(t, 1, d.Runs)
	require.ErrorContains(t, d.Err, "try 1")
	before := kit.Clock().Wall()
	d = kit.Run(m)
	assert.True(t, d.Acked)
	assert.Equal(t, 2, d.Runs)
	assert.Equal(t, time.Minute, kit.Clock().Wall().Sub(before), "the delay has passed")
	kit.DeadLetter(m, "attempt 3 of 3: try 3")
	kit.Published("out")
	assert.True(t, kit.Deliver(kit.Copy(m)).Acked, "given up is an end")
	assert.Contains(t, judged(t, func(tb testing.TB) {
		other := onefoldtest.New(tb, consumer.Config{MaxAttempts: 1, Handler: func(context.Context, *onefold.Message, *onefold.Effects) error { return errors.New("no") }})
		m := other.Message("in", "a", 1)
		other.Run(m)
		other.Succeeded(m)
	}), "has ended as dead-lettered and should be succeeded\n  reason: attempt 1 of 1: no")
}

func TestAReusedIDBecomesADeadLetter(t *testing.T) {
	kit := onefoldtest.New(t, consumer.Config{Handler: consumer.JSON(bill)})
	kit.Run(kit.Message("orders.new", "7", Order{ID: "7", Cents: 1}))
	other := kit.Message("orders.new", "7", Order{ID: "7", Cents: 2})
	kit.Run(other)
	kit.DeadLetter(other, "id reused with different payload")
	kit.Published("charges.create", Charge{Order: "7", Cents: 1})
}

func TestTwoRunsAtOnceHaveOneEffect(t *testing.T) {
	runs := 0
	kit := onefoldtest.New(t, consumer.Config{Handler: func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		runs++
		fx.Publish("out", "x")
		return nil
	}})
	m := kit.Message("in", "a", 1)
	d := kit.During(m, func() {
		kit.Advance(consumer.DefaultLease + time.Second)
		assert.True(t, kit.Elsewhere(m).Acked, "the other has taken it over")
	})
	assert.False(t, d.Acked, "who has lost the claim answers nothing")
	require.ErrorIs(t, d.Err, onefold.ErrLost)
	assert.Equal(t, 2, runs)
	kit.Published("out", "x")
}

func TestACrashLeavesWhatTheTableOfGuaranteesSays(t *testing.T) {
	for point, want := range map[onefoldtest.Point]struct{ runs, sent int }{
		onefoldtest.Received: {1, 0}, onefoldtest.Claimed: {1, 0}, onefoldtest.Handled: {1, 0},
		onefoldtest.Committed: {0, 0}, onefoldtest.Acked: {0, 0}, onefoldtest.Fetched: {0, 0},
		onefoldtest.Published: {0, 1}, onefoldtest.Settled: {0, 1},
	} {
		t.Run(string(point), func(t *testing.T) {
			kit := onefoldtest.New(t, consumer.Config{Handler: consumer.JSON(bill)})
			m := kit.Message("orders.new", "7", Order{ID: "7"})
			assert.True(t, kit.CrashAt(point, m))
			assert.Len(t, kit.Sent(), want.sent)
			assert.Equal(t, want.runs, kit.Run(m).Runs, "it runs again if nothing was stored")
			kit.Succeeded(m)
			kit.Published("charges.create", Charge{Order: "7"})
		})
	}
}

func TestADeadLetterSurvivesACrashBeforeItsAck(t *testing.T) {
	kit := onefoldtest.New(t, consumer.Config{Handler: func(context.Context, *onefold.Message, *onefold.Effects) error {
		return onefold.Permanent(errors.New("never"))
	}})
	m := kit.Message("in", "a", 1)
	assert.True(t, kit.CrashAt(onefoldtest.Acked, m))
	assert.True(t, kit.Run(m).Acked)
	kit.DeadLetter(m, "never")
	assert.Len(t, kit.Sent(), 1)
}

func TestStateIsSeededReadAndKept(t *testing.T) {
	kit := onefoldtest.New(t, consumer.Config{Handler: func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		n, err := count(ctx, fx, "numbers", "orders")
		fx.Result(n)
		return err
	}})
	kit.Seed("numbers", "orders", 41)
	first, second := kit.Message("in", "a", 1), kit.Message("in", "b", 1)
	kit.Survives(first)
	kit.State("numbers", "orders", 42)
	kit.State("numbers", "invoices", nil)
	kit.Result(first, 42)
	kit.Survives(second) // behind the first one
	kit.Result(second, 43)
}

func TestAHandlerThatDependsOnTheOrderIsTold(t *testing.T) {
	last := func(_ context.Context, msg *onefold.Message, fx *onefold.Effects) error {
		fx.Put("prices", "apple", msg.Data)
		return nil
	}
	newest := func(ctx context.Context, msg *onefold.Message, fx *onefold.Effects) error {
		data, _, err := fx.Get(ctx, "prices", "apple")
		if string(msg.Data) > string(data) {
			fx.Put("prices", "apple", msg.Data)
		}
		return err
	}
	try := func(h onefold.Handler) string {
		return judged(t, func(tb testing.TB) {
			kit := onefoldtest.New(tb, consumer.Config{Handler: h})
			kit.AnyOrder(kit.Message("in", "a", []byte("1")), kit.Message("in", "b", []byte("2")), kit.Message("in", "c", []byte("3")))
			kit.State("prices", "apple", []byte("3"))
		})
	}
	assert.Empty(t, try(newest))
	assert.Contains(t, try(last), "delivered in reverse, the messages leave something else (+) than in the order given (-):\n"+
		"  - state \"prices\"/\"apple\": 3\n  + state \"prices\"/\"apple\": 1\n")
}

func TestWhatWaitsLeavesWhenItsTimeHasCome(t *testing.T) {
	kit := onefoldtest.New(t, consumer.Config{Handler: func(_ context.Context, msg *onefold.Message, fx *onefold.Effects) error {
		fx.Emit(onefold.Effect{Target: "later", Payload: []byte("1"), OrderKey: "k", NotBefore: msg.Time.Add(time.Hour)})
		fx.Emit(onefold.Effect{Target: "later", Payload: []byte("2"), OrderKey: "k"})
		fx.Publish("now", "3")
		return nil
	}})
	kit.Run(kit.Message("in", "a", 1))
	kit.Published("now", "3")
	kit.Published("later")
	kit.Advance(time.Hour)
	kit.Published("later", []byte("1"), []byte("2"))
}

func TestCallsAreAsserted(t *testing.T) {
	kit := onefoldtest.New(t, consumer.Config{Handler: func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		fx.Call("charge", fx.Key().ID)
		fx.CallOnce("fax", fx.Key().ID)
		return nil
	}})
	m := kit.Message("in", "a", 1)
	kit.CrashAt(onefoldtest.Published, m) // on the way of the first row
	kit.Run(m)
	kit.Called("charge", "a")
	kit.Called("fax", "a")
	kit.Called("other")
	assert.Contains(t, judged(t, func(tb testing.TB) {
		other := onefoldtest.New(tb, consumer.Config{Handler: func(context.Context, *onefold.Message, *onefold.Effects) error { return nil }})
		other.Called("charge", 1)
	}), "call to charge: 0 were sent and 1 are expected\n  expected: 1")
}

func TestTheServicesObserverIsTold(t *testing.T) {
	var seen []string
	tell := func(what string) func(onefold.DeliveryEvent) {
		return func(onefold.DeliveryEvent) { seen = append(seen, what) }
	}
	row := func(what string) func(onefold.RowEvent) {
		return func(e onefold.RowEvent) { seen = append(seen, fmt.Sprint(what, " ", e.Duplicate)) }
	}
	kit := onefoldtest.New(t, consumer.Config{Handler: consumer.JSON(bill), Observer: &onefold.Observer{
		Received: tell("received"), Claimed: tell("claimed"), Handled: tell("handled"), Committed: tell("committed"), Acked: tell("acked"),
		Fetched: row("fetched"), Published: row("published"), Settled: row("settled"), Duplicate: tell("duplicate"),
	}})
	m := kit.Message("orders.new", "7", Order{ID: "7"})
	kit.CrashAt(onefoldtest.Published, m)
	kit.Run(m)
	assert.Equal(t, "received claimed handled committed acked fetched false published false received duplicate fetched false published true settled true",
		strings.Join(seen, " "))
}
