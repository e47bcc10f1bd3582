package consumer_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
)

// named makes a handler for each name; the name of the one that ran is in *ran.
func named(ran *string, names ...string) map[string]onefold.Handler {
	all := map[string]onefold.Handler{}
	for _, name := range names {
		all[name] = func(context.Context, *onefold.Message, *onefold.Effects) error { *ran = name; return nil }
	}
	return all
}

// handleWith runs h for a message outside a consumer.
func handleWith(h onefold.Handler, m *onefold.Message) error {
	return h(context.Background(), m, onefold.NewEffects(onefold.RunInfo{Key: onefold.Key{Scope: "s", ID: "1"}, Attempt: 1}, nil))
}

func TestTheMostSpecificPatternDecides(t *testing.T) {
	ran := ""
	h, err := consumer.RouteBySubject(named(&ran, ">", "*.>", "orders.>", "orders.*", "orders.*.>", "orders.*.paid", "orders.eu.*", "orders.eu.paid", "orders.new", "bills"),
		named(&ran, "nobody")["nobody"])
	require.NoError(t, err)
	for subject, want := range map[string]string{
		"orders.new":        "orders.new",
		"orders.old":        "orders.*",
		"orders.eu.paid":    "orders.eu.paid",
		"orders.us.paid":    "orders.*.paid",
		"orders.eu.sent":    "orders.eu.*",
		"orders.us.sent":    "orders.*.>",
		"orders.eu.paid.x":  "orders.*.>",
		"orders":            ">",
		"bills":             "bills",
		"bills.new":         "*.>",
		"orders.new.paid":   "orders.*.paid",
		"ordersx.new":       "*.>",
		"orders.eu.paid2":   "orders.eu.*",
		"other.x.y.z.a.b.c": "*.>",
	} {
		ran = ""
		require.NoError(t, handleWith(h, &onefold.Message{Subject: subject}))
		assert.Equal(t, want, ran, subject)
	}
}

func TestARouterIsCheckedWhenItIsMade(t *testing.T) {
	ran := ""
	none := onefold.Handler(nil)
	tests := []struct {
		name   string
		routes map[string]onefold.Handler
		says   []string // each of them; none: accepted
	}{
		{"no route", nil, []string{"there is no route"}},
		{"no handler", map[string]onefold.Handler{"a": none, "b": consumer.JSON[int](nil)}, []string{`for "a" is nil`, `for "b" is nil`}},
		{"malformed", named(&ran, "a..b", "a.>.b", "a b", ""), []string{`"a..b"`, `"a.>.b"`, `"a b"`, `""`}},
		{"both may decide", named(&ran, "*.new", "orders.*"), []string{`"*.new" and "orders.*" both match "orders.new"`, "add a route"}},
		{"both may decide, of any length", named(&ran, "*.new.>", "orders.>"), []string{`both match "orders.new.>"`}},
		{"two overlaps", named(&ran, "*.new", "orders.*", "*.*.b", "x.a.*"), []string{`"orders.new"`, `"x.a.b"`}},
		{"the overlap is decided", named(&ran, "*.new", "orders.*", "orders.new"), nil},
		{"one in the other", named(&ran, "a.>", "a.*", "a.b"), nil},
		{"nothing in common", named(&ran, "a.*", "b.*", "*.x.y", "c"), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, err := consumer.RouteBySubject(tt.routes, nil)
			if len(tt.says) == 0 {
				require.NoError(t, err)
				require.NotNil(t, h)
				return
			}
			require.ErrorIs(t, err, onefold.ErrInvalid)
			assert.Nil(t, h)
			for _, part := range tt.says {
				assert.ErrorContains(t, err, part)
			}
		})
	}
	for header, routes := range map[string]map[string]onefold.Handler{
		"":     named(&ran, "a"),
		"Ty:p": named(&ran, "a"),
		"Type": named(&ran, "", " a", "a\n"),
		"type": {"a": nil},
		"Kind": {},
	} {
		_, err := consumer.RouteByHeader(header, routes, nil)
		require.ErrorIs(t, err, onefold.ErrInvalid, header)
	}
}

func TestAHeaderRoutesByItsValue(t *testing.T) {
	ran := ""
	h, err := consumer.RouteByHeader("Type", named(&ran, "order.created", "order.paid"), nil)
	require.NoError(t, err)
	require.NoError(t, handleWith(h, &onefold.Message{Header: onefold.Header{"Type": {"order.paid", "order.created"}}}))
	assert.Equal(t, "order.paid", ran)
	for _, header := range []onefold.Header{nil, {"Type": {""}}, {"Type": {"Order.paid"}}, {"type": {"order.paid"}}, {"Type": {strings.Repeat("x\n", 10_000)}}} {
		err := handleWith(h, &onefold.Message{Header: header})
		require.ErrorIs(t, err, consumer.ErrUnrouted)
		assert.True(t, onefold.IsPermanent(err))
		assert.NotContains(t, err.Error(), "\n")
		assert.Less(t, len(err.Error()), 600)
	}
}

func TestLaterChangesOfTheMapDoNotReachTheRouter(t *testing.T) {
	ran := ""
	bySubject, byType := named(&ran, "a", "b.*"), named(&ran, "a")
	h, err := consumer.RouteBySubject(bySubject, nil)
	require.NoError(t, err)
	g, err := consumer.RouteByHeader("Type", byType, nil)
	require.NoError(t, err)
	clear(bySubject)
	clear(byType)
	require.NoError(t, handleWith(h, &onefold.Message{Subject: "b.c"}))
	require.NoError(t, handleWith(g, &onefold.Message{Header: onefold.Header{"Type": {"a"}}}))
}

func TestRoutingAllocatesNothing(t *testing.T) {
	ran := ""
	h, err := consumer.RouteBySubject(named(&ran, "orders.*.paid", "orders.eu.*", "orders.eu.paid", "orders.>"), nil)
	require.NoError(t, err)
	m, fx := &onefold.Message{Subject: "orders.us.paid"}, onefold.NewEffects(onefold.RunInfo{}, nil)
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = h(t.Context(), m, fx) }))
}

func TestAnUnroutedMessageBecomesADeadLetterOrIsIgnoredByPolicy(t *testing.T) {
	for _, tt := range []struct {
		name     string
		unrouted onefold.Handler
		dead     int
	}{{"dead letter, by default", nil, 1}, {"ignored", consumer.Ignore, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			ran := ""
			h, err := consumer.RouteBySubject(named(&ran, "in.orders.*"), tt.unrouted)
			require.NoError(t, err)
			work, relay := r.start(r.config(h)), r.relay()
			r.publish("m-1", "body") // on in.a
			r.awaitCount("acked", 1)
			if tt.dead > 0 {
				letters := r.read(consumer.DefaultDeadLetterStream, tt.dead)
				assert.Equal(t, `no route for the subject "in.a"`, letters[0].Headers().Get(consumer.HeaderDeadReason))
				assert.Equal(t, string(onefold.ClassPermanent), letters[0].Headers().Get(consumer.HeaderDeadClass))
			}
			assert.Equal(t, 1, r.count("claimed"), "one run")
			assert.Equal(t, tt.dead, r.count("dead"))
			record, err := r.st.Lookup(r.ctx, onefold.Key{Scope: "IN/work", ID: "m-1"})
			require.NoError(t, err)
			assert.Equal(t, tt.dead > 0, record.Outcome == onefold.DeadLettered)
			work.end()
			relay.end()
			assert.Empty(t, ran)
		})
	}
}
