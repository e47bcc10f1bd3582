package outbox

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onefold-go/onefold"
)

func TestEachTryMakesANewMessage(t *testing.T) {
	e := &onefold.Effect{ID: "e1", Target: "out.a", Header: onefold.Header{"Tenant": {"t"}}, Payload: []byte("x")}
	first, second := messageOf(e), messageOf(e)
	first.Header.Set("Nats-Expected-Stream", "LEFT-OVER")
	assert.Empty(t, second.Header.Get("Nats-Expected-Stream"))
	assert.Equal(t, onefold.Header{"Tenant": {"t"}}, e.Header, "the row stays as it is")
	assert.Equal(t, "e1", second.Header.Get(HeaderTransportID))
	assert.Equal(t, "e1", second.Header.Get(onefold.HeaderID))
}

func TestARowOfTheFrameworkKeepsTheIDThatItCarries(t *testing.T) {
	e := &onefold.Effect{ID: "e1", Header: onefold.Header{onefold.HeaderID: {"original"}}}
	m := messageOf(e)
	assert.Equal(t, "original", m.Header.Get(onefold.HeaderID))
	assert.Equal(t, "e1", m.Header.Get(HeaderTransportID), "the transport ID is always the effect's")
}

// The sum is stored: it must stay what it is for ever.
func TestStoredEnqueueFingerprintsNeverChange(t *testing.T) {
	f := fingerprintOf(&onefold.Entry{
		Effects: []onefold.Effect{{Kind: onefold.KindMessage, Target: "out.a", Payload: []byte("x"), Header: onefold.Header{"B": {"2"}, "A": {"1"}}}},
		Writes:  []onefold.Write{{Table: "t", Key: "k", Value: []byte("v")}},
		Result:  []byte("r"),
	})
	assert.Equal(t, "v32:0d353c525d0dba4ea5973f4b7ccca797", f.String())
}
