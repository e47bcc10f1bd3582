package outbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
)

// card is what handlers give to the functions of these tests.
type card struct {
	Number string `json:"number"`
	Cents  int    `json:"cents"`
}

func TestAFunctionGetsTheDecodedPayloadAndTheCall(t *testing.T) {
	failed := errors.New("failed")
	var got []card
	do := outbox.JSON(func(_ context.Context, v card, c outbox.Call) error {
		assert.Equal(t, "charge", c.Name)
		got = append(got, v)
		return failed
	})
	for _, payload := range []string{`{"number":"4","cents":5}`, `{"cents":5,"of a later version":1}`, `{}`} {
		require.Equal(t, failed, do(t.Context(), outbox.Call{Name: "charge", Payload: []byte(payload)}))
	}
	assert.Equal(t, []card{{"4", 5}, {"", 5}, {}}, got)
}

func TestAPayloadThatDoesNotDecodeIsPermanent(t *testing.T) {
	do := outbox.JSON(func(context.Context, card, outbox.Call) error {
		assert.Fail(t, "called")
		return nil
	})
	for _, payload := range []string{"", "{", "4", `{"cents":"five"}`, "\x00"} {
		err := do(t.Context(), outbox.Call{Payload: []byte(payload)})
		require.ErrorContains(t, err, "decode the payload as outbox_test.card, ")
		assert.True(t, onefold.IsPermanent(err))
	}
}

func TestANilFunctionMakesANilDo(t *testing.T) {
	assert.Nil(t, outbox.JSON[card](nil))
}

// Nothing has happened, so the same is true of calls that may happen once only.
func TestACallWhosePayloadDoesNotDecodeIsParkedWholeAndGoesOnWhenItCanBeRead(t *testing.T) {
	for name, once := range map[string]bool{"at least once": false, "at most once": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.call("a", "f", once) // its payload is a string
			stop := r.run(with(outbox.Function{Do: outbox.JSON(func(context.Context, card, outbox.Call) error { return nil })}))
			assert.Contains(t, r.fate(), "decode the payload as outbox_test.card, 3 bytes: json: ")
			require.NoError(t, stop())
			assert.Equal(t, 1, r.events("parked")[0].row.Attempt)

			n, err := outbox.Resume(r.ctx, r.st, outbox.Choice{IDs: []string{key("a").EffectID(0)}}, "it is a string", nil)
			require.NoError(t, err)
			require.Equal(t, 1, n)
			got := make(chan string, 1)
			r.run(with(outbox.Function{
				Do:    outbox.JSON(func(_ context.Context, v string, _ outbox.Call) error { got <- v; return nil }),
				Probe: func(context.Context, string) (outbox.ProbeResult, error) { return outbox.ProbeNotHappened, nil },
			}))
			select {
			case v := <-got:
				assert.Equal(t, "a", v)
			case <-r.ctx.Done():
				assert.Fail(t, "not called")
			}
		})
	}
}
