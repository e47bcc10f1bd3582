package dedupe_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
	"github.com/onefold-go/onefold/store/memstore"
)

func ExampleNewGuard() {
	ctx := context.Background()
	st := memstore.New()
	defer func() { _ = st.Close(ctx) }()
	guard, err := dedupe.NewGuard(st, dedupe.GuardOptions{Scope: "http/payments"})
	if err != nil {
		fmt.Println(err)
		return
	}
	pay := func(id, body string) {
		result, err := guard.Do(ctx, id, dedupe.BodyFingerprint("POST /payments", []byte(body)),
			func(_ context.Context, fx *onefold.Effects) error {
				fx.Publish("payments.made", []byte(body))
				fx.Result([]byte("paid " + body))
				return nil
			})
		if errors.Is(err, onefold.ErrMismatch) {
			fmt.Println("that ID was another payment")
			return
		}
		fmt.Println(string(result.Record.Result), "- ran:", result.Executed)
	}
	pay("request-1", "5 EUR")
	pay("request-1", "5 EUR") // the client asks again
	pay("request-1", "6 EUR")
	// Output:
	// paid 5 EUR - ran: true
	// paid 5 EUR - ran: false
	// that ID was another payment
}

func ExampleFirstOf() {
	source := dedupe.FirstOf(dedupe.HeaderID("Order-Id"), dedupe.DefaultID)
	id, err := source(&onefold.Message{Header: onefold.Header{"Nats-Msg-Id": {" 42 "}}})
	fmt.Println(id, err)
	_, err = source(&onefold.Message{Header: onefold.Header{"Nats-Msg-Id": {"  "}}})
	fmt.Println(err)
	// Output:
	// 42 <nil>
	// missing id: neither header Onefold-Id nor Nats-Msg-Id is set
}

func ExampleSelected() {
	// Only what follows the timestamp says what the message means.
	fingerprint, err := dedupe.Selected(64, func(m *onefold.Message) []byte { return m.Data[len("12:00 "):] })
	if err != nil {
		fmt.Println(err)
		return
	}
	a := fingerprint(&onefold.Message{Data: []byte("12:00 pay")})
	b := fingerprint(&onefold.Message{Data: []byte("12:05 pay")})
	fmt.Println(a.Conflicts(b))
	// Output: false
}
