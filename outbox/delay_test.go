package outbox

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestDelaysGrowToTheirLimitAndRepeat(t *testing.T) {
	const lowest, highest = 100 * time.Millisecond, time.Minute
	full := []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond}
	for attempt := 1; attempt <= 40; attempt++ {
		want := highest
		if attempt <= len(full) {
			want = full[attempt-1]
		}
		if attempt > len(full) && attempt < 11 {
			want = lowest << (attempt - 1)
			want = min(want, highest)
		}
		for seed := range uint64(50) {
			d := retryDelay(lowest, highest, attempt, seed)
			assert.LessOrEqual(t, d, want)
			assert.Greater(t, d, want-want/4)
			assert.Equal(t, d, retryDelay(lowest, highest, attempt, seed))
		}
	}
	assert.NotEqual(t, retryDelay(lowest, highest, 3, 1), retryDelay(lowest, highest, 3, 2), "seeds spread")
}

func TestDelaysOfOddLimitsNeitherOverflowNorFail(t *testing.T) {
	assert.Positive(t, retryDelay(math.MaxInt64/2+1, math.MaxInt64, 60, 7))
	assert.Equal(t, time.Duration(1), retryDelay(1, 1, 5, 7))
	assert.Equal(t, time.Duration(3), retryDelay(3, 3, 0, 7))
}

func TestTroublesGrowPerRoundAndPerSubject(t *testing.T) {
	tr := troubles{lowest: 100 * time.Millisecond, highest: time.Minute}
	first := tr.note("a", 0)
	assert.LessOrEqual(t, first, 100*time.Millisecond)
	assert.Equal(t, first, tr.note("a", 0), "the same round")

	second := tr.note("a", first)
	assert.Greater(t, second, 100*time.Millisecond, "a later round")
	assert.LessOrEqual(t, tr.note("b", first), 100*time.Millisecond, "another subject")

	tr.clear("a")
	assert.LessOrEqual(t, tr.note("a", first), 100*time.Millisecond, "after a success")
}

func TestTroublesOfManySubjectsStayBounded(t *testing.T) {
	tr := troubles{lowest: time.Millisecond, highest: time.Second}
	for i := range 3 * maxTroubled {
		assert.Positive(t, tr.note(strconv.Itoa(i), time.Duration(i)*time.Second))
	}
	assert.LessOrEqual(t, len(tr.of), maxTroubled+1)
}
