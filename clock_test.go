package onefold_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onefold-go/onefold"
)

func TestTheZeroClockIsTheMachines(t *testing.T) {
	c := onefold.Clock{}.OrSystem()
	before := c.Mono()
	assert.GreaterOrEqual(t, c.Mono(), before)
	assert.WithinDuration(t, time.Now(), c.Wall(), time.Minute)
	fixed := onefold.Clock{Wall: func() time.Time { return time.Unix(1, 0) }}.OrSystem()
	assert.Equal(t, time.Unix(1, 0), fixed.Wall())
	assert.NotNil(t, fixed.Mono)
}

func TestEnumsAndUnknownValuesHaveNames(t *testing.T) {
	names := fmt.Sprint(onefold.Succeeded, onefold.DeadLettered, onefold.ParkedUnknown, onefold.Outcome(0),
		onefold.Granted, onefold.Busy, onefold.Done, onefold.Mismatch, onefold.Verdict(0),
		onefold.Sent, onefold.Delayed, onefold.Parked, onefold.Tried, onefold.Discarded, onefold.State(0))
	assert.Equal(t, "succeeded dead-lettered parked-unknown none granted busy done mismatch none sent delayed parked tried discarded none", names)
}

func TestAHeaderGivesItsFirstValue(t *testing.T) {
	h := onefold.Header{"A": {"1", "2"}, "B": {}}
	assert.Equal(t, "1", h.Get("A"))
	assert.Empty(t, h.Get("B"))
	assert.Empty(t, h.Get("a"), "names are case-sensitive")
}
