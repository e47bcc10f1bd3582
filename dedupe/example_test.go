package dedupe_test

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// The first request is slow, and the client asks again meanwhile: both get its answer.
func ExampleGuard_Do_wait() {
	ctx := context.Background()
	st := memstore.New()
	defer func() { _ = st.Close(ctx) }()
	guard, err := dedupe.NewGuard(st, dedupe.GuardOptions{Scope: "http/payments", Wait: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	answers := make(chan dedupe.Result, 2)
	for range 2 {
		go func() {
			result, err := guard.Do(ctx, "request-1", onefold.Fingerprint{}, func(_ context.Context, fx *onefold.Effects) error {
				fx.Result([]byte("paid"))
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
			answers <- result
		}()
	}
	a, b := <-answers, <-answers
	fmt.Printf("%s, %s; runs at once: %t\n", a.Record.Result, b.Record.Result, a.Executed && b.Executed)
	// Output: paid, paid; runs at once: false
}

func ExampleSubjectAndJSON() {
	a := dedupe.SubjectAndJSON(&onefold.Message{Data: []byte(`{"order": 7, "cents": 500}`)})
	b := dedupe.SubjectAndJSON(&onefold.Message{Data: []byte(`{"cents":500,"order":7}`)})
	c := dedupe.SubjectAndJSON(&onefold.Message{Data: []byte(`{"cents":501,"order":7}`)})
	fmt.Println(a.Conflicts(b), a.Conflicts(c))
	// Output: false true
}

func ExampleOnlyFields() {
	fields, err := dedupe.OnlyFields("/order", "/lines/price")
	if err != nil {
		fmt.Println(err)
		return
	}
	a := fields.SubjectAndJSON(&onefold.Message{Data: []byte(`{"order": 7, "lines": [{"price": 5, "text": "five"}]}`)})
	b := fields.SubjectAndJSON(&onefold.Message{Data: []byte(`{"order": 7, "lines": [{"price": 5, "text": "fünf"}]}`)})
	fmt.Println(a.Conflicts(b))
	// Output: false
}

// Each try of a sender has a time and a request ID of its own.
func ExampleWithoutFields() {
	fields, err := dedupe.WithoutFields("/sentAt", "/meta/requestId")
	if err != nil {
		fmt.Println(err)
		return
	}
	a := fields.SubjectAndJSON(&onefold.Message{Data: []byte(`{"order": 7, "sentAt": "12:00", "meta": {"requestId": "a"}}`)})
	b := fields.SubjectAndJSON(&onefold.Message{Data: []byte(`{"order": 7, "sentAt": "12:05", "meta": {"requestId": "b"}}`)})
	fmt.Println(a.Conflicts(b))
	_, err = dedupe.WithoutFields("meta.requestId")
	fmt.Println(err)
	// Output:
	// false
	// onefold: invalid argument: fields: path "meta.requestId" does not start with a slash; write "/order/id" for the member id of the member order
}

func ExampleCloudEventID() {
	id, err := dedupe.CloudEventID(&onefold.Message{Header: onefold.Header{"ce-source": {"/shop"}, "ce-id": {"42"}}})
	fmt.Println(id, err)
	id, err = dedupe.CloudEventID(&onefold.Message{
		Header: onefold.Header{"content-type": {"application/cloudevents+json"}},
		Data:   []byte(`{"specversion": "1.0", "type": "sold", "source": "/shop", "id": "42"}`),
	})
	fmt.Println(id, err)
	// Output:
	// 5:/shop42 <nil>
	// 5:/shop42 <nil>
}
