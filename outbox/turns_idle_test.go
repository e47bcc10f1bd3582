package outbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTimeWithoutCallsIsNotTakenForSlowness(t *testing.T) {
	var turns turns
	turns.wake(time.Hour)
	turns.note(time.Hour+time.Millisecond, time.Millisecond)
	turns.wake(2 * time.Hour)
	assert.LessOrEqual(t, turns.book(2*time.Hour, 16, 1024, time.Minute), 700*time.Millisecond)
	turns.note(2*time.Hour+time.Millisecond, time.Millisecond)
	assert.Equal(t, time.Minute, turns.book(3*time.Hour, 16, 1024, time.Minute), "a call that has been under way for an hour does count")
}
