package consumer_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/natstest"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/memstore"
)

// newRigOn is a rig on a server with a configuration of its own, without streams. admin sees everything.
func newRigOn(t *testing.T, configuration string, admin ...nats.Option) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	r := &rig{journal: newJournal(ctx, t), t: t, ctx: ctx, data: memstore.NewData(onefold.Clock{}),
		srv: natstest.Start(t, natstest.Options{Config: configuration})}
	r.nc, r.js = r.srv.Connect(t, admin...)
	r.open(nil)
	return r
}

// documentedPermissions is the block of docs/operations.md that follows a marker.
func documentedPermissions(t *testing.T, marker string) string {
	t.Helper()
	page, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	found := regexp.MustCompile("(?s)<!-- " + marker + " -->\n```\n(.*?)```").FindSubmatch(page)
	require.NotNil(t, found, marker)
	return string(found[1])
}

// Whatever a client is refused is an asynchronous error, even where it goes on without.
func TestTheDocumentedPermissionsAreEnough(t *testing.T) {
	for _, bindOnly := range []bool{true, false} {
		name := map[bool]string{true: "bind-only", false: "making"}[bindOnly]
		t.Run(name, func(t *testing.T) {
			r := newRigOn(t, `authorization { users = [
				{ user: admin, password: x }
				{ user: worker, password: x, permissions: {`+documentedPermissions(t, "permissions: "+name)+`} }
			] }`, nats.UserInfo("admin", "x"))
			r.stream(jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
			r.stream(jetstream.StreamConfig{Name: "CHARGES", Subjects: []string{"charges.>"}, Storage: jetstream.MemoryStorage})
			c := r.config(func(_ context.Context, m *onefold.Message, fx *onefold.Effects) error {
				if string(m.Data) == "bad" {
					return onefold.Permanent(assert.AnError)
				}
				fx.Publish("charges.create", "one")
				return nil
			})
			c.Stream, c.Name, c.BindOnly = "ORDERS", "billing", bindOnly
			if bindOnly {
				c.AckWait = 0
				r.stream(jetstream.StreamConfig{Name: "ONEFOLD_DEAD", Subjects: []string{"onefold.dead.>"}})
				_, err := r.js.CreateConsumer(r.ctx, "ORDERS", jetstream.ConsumerConfig{Durable: "billing", AckPolicy: jetstream.AckExplicitPolicy})
				require.NoError(t, err)
			}
			refused := make(chan error, 64)
			_, js := r.srv.Connect(t, nats.UserInfo("worker", "x"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
			warned := make(chan onefold.WarnEvent, 64)
			relay, err := outbox.NewRelay(r.st, outbox.Config{JetStream: js, Observer: &onefold.Observer{Warned: func(e onefold.WarnEvent) { warned <- e }}})
			require.NoError(t, err)
			for range 2 { // the second time everything exists
				w, out := r.startOn(js, r.st, c), r.run(relay)
				n := r.count("acked")
				r.order("orders.new", "good")
				r.order("orders.new", "bad")
				r.awaitCount("acked", n+2)
				w.end()
				if n == 0 {
					select {
					case e := <-warned:
						assert.Contains(t, e.Text, "stream CHARGES, to which effects are sent: Storage is memory")
					case <-r.ctx.Done():
						assert.Fail(t, "the target stream could not be looked at")
					}
				}
				out.end()
			}
			close(refused)
			for err := range refused {
				assert.NoError(t, err)
			}
			assert.Equal(t, 2, r.stored("ONEFOLD_DEAD"))
			assert.Equal(t, 2, r.stored("CHARGES"))
		})
	}
}

// order publishes with an ID of its own.
func (r *rig) order(subject, body string) {
	r.t.Helper()
	r.send(&nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{onefold.HeaderID: {nats.NewInbox()}}})
}

func TestADomainWorks(t *testing.T) {
	r := newRigOn(t, `jetstream { domain: hub }`)
	js, err := jetstream.NewWithDomain(r.nc, "hub")
	require.NoError(t, err)
	r.worksThrough(js, "in.")
}

func TestAnAccountPrefixWorks(t *testing.T) {
	r := newRigOn(t, `accounts {
		STREAMS: {
			jetstream: enabled
			users: [ { user: admin, password: x } ]
			exports: [
				{ service: "$JS.API.>", response_type: stream }
				{ service: "$JS.ACK.>" }
				{ service: "in.>" }
				{ service: "onefold.dead.>" }
			]
		}
		WORKERS: {
			users: [ { user: worker, password: x } ]
			imports: [
				{ service: { account: STREAMS, subject: "$JS.API.>" }, to: "streams.api.>" }
				{ service: { account: STREAMS, subject: "$JS.ACK.>" } }
				{ service: { account: STREAMS, subject: "in.>" } }
				{ service: { account: STREAMS, subject: "onefold.dead.>" } }
			]
		}
	}`, nats.UserInfo("admin", "x"))
	nc, _ := r.srv.Connect(t, nats.UserInfo("worker", "x"))
	js, err := jetstream.NewWithAPIPrefix(nc, "streams.api")
	require.NoError(t, err)
	r.worksThrough(js, "in.")
}

// worksThrough runs messages of all kinds through a JetStream context that is not the plain one.
func (r *rig) worksThrough(js jetstream.JetStream, prefix string) {
	r.t.Helper()
	r.stream(jetstream.StreamConfig{Name: "IN", Subjects: []string{prefix + ">"}})
	w := r.startOn(js, r.st, r.config(func(_ context.Context, m *onefold.Message, fx *onefold.Effects) error {
		switch {
		case strings.HasSuffix(m.Subject, "bad"):
			return onefold.Permanent(assert.AnError)
		case strings.HasSuffix(m.Subject, "more"):
			fx.Publish(prefix+"asked", "x")
		}
		return nil
	}))
	relay, err := outbox.NewRelay(r.st, outbox.Config{JetStream: js})
	require.NoError(r.t, err)
	out := r.run(relay)
	r.order(prefix+"more", "x")
	r.order(prefix+"bad", "x")
	r.awaitCount("acked", 3)
	r.settled()
	assert.Equal(r.t, 1, r.count("dead"))
	require.Eventually(r.t, func() bool { return r.storedFloor() == 3 }, 10*time.Second, 10*time.Millisecond)
	r.deleteConsumer()
	r.awaitCount("state running", 2)
	r.order(prefix+"last", "x")
	r.awaitCount("acked", 4)
	w.end()
	out.end()
}
