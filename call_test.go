package onefold_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func TestACallIsAnEffectWithAStableID(t *testing.T) {
	fx := onefold.NewEffects(onefold.RunInfo{Key: order7}, nil)
	fx.Call("charge-card", map[string]int{"cents": 5})
	fx.CallOnce("send.fax", []byte("raw"))
	entry, err := fx.Seal()
	require.NoError(t, err)
	assert.Equal(t, []onefold.Effect{
		{ID: order7.EffectID(0), Kind: onefold.KindCall, Target: "charge-card", Payload: []byte(`{"cents":5}`)},
		{ID: order7.EffectID(1), Kind: onefold.KindCall, Target: "send.fax", Payload: []byte("raw"), Once: true},
	}, entry.Effects)
}

func TestACallThatNoRelayCanMakeIsRefusedWhenItIsBuffered(t *testing.T) {
	for want, e := range map[string]onefold.Effect{
		"field Target: onefold: invalid argument: name of a function is empty": {},
		`name of a function is "a b"; only letters, digits`:                    {Target: "a b"},
		"name of a function has 257 bytes, the limit is 256; shorten it":       {Target: strings.Repeat("a", 257)},
		`Once is set on the timer "later"`:                                     {Target: "f", Once: true, Timer: "later"},
		`header "Nats-X": names starting with Nats- control the server`:        {Target: "f", Header: onefold.Header{"Nats-X": {"1"}}},
		`Conn is "other"`: {Target: "f", Conn: "other"},
	} {
		fx := onefold.NewEffects(onefold.RunInfo{Key: order7}, nil)
		e.Kind = onefold.KindCall
		fx.Emit(e)
		require.ErrorIs(t, fx.Err(), onefold.ErrInvalid)
		require.ErrorContains(t, fx.Err(), want)
		assert.True(t, onefold.IsPermanent(fx.Err()))
	}
	fx := onefold.NewEffects(onefold.RunInfo{Key: order7}, nil)
	fx.Call("f", func() {})
	require.ErrorContains(t, fx.Err(), `call of "f": json: unsupported type`)
}

func TestThePayloadOfACallIsLimitedByTheStoreAndNotByTheServer(t *testing.T) {
	fx := onefold.NewEffects(onefold.RunInfo{Key: order7, Limits: onefold.Limits{MaxPayload: 10, MaxEntry: 1000}}, nil)
	fx.Call("f", make([]byte, 500))
	require.NoError(t, fx.Err())
	fx.Call("f", make([]byte, 500))
	require.ErrorIs(t, fx.Err(), onefold.ErrTooLarge)
}

func ExampleEffects_Call() {
	fx := onefold.NewEffects(onefold.RunInfo{Key: onefold.Key{Scope: "ORDERS/billing", ID: "order-7"}}, nil)
	fx.Call("charge-card", map[string]int{"cents": 500})
	entry, err := fx.Seal()
	fmt.Println(entry.Effects[0].Target, string(entry.Effects[0].Payload), err)
	// Output: charge-card {"cents":500} <nil>
}
