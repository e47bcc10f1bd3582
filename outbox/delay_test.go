package outbox

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

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
