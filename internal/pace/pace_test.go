package pace_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/assert"

	"github.com/onefold-go/onefold/internal/pace"
)

func ExampleDelay() {
	for attempt := 1; attempt <= 5; attempt++ {
		d := pace.Delay(attempt, 42, time.Second, 10*time.Second)
		fmt.Println(attempt, d > 0, d <= 10*time.Second, d == pace.Delay(attempt, 42, time.Second, 10*time.Second))
	}
	// Output:
	// 1 true true true
	// 2 true true true
	// 3 true true true
	// 4 true true true
	// 5 true true true
}

func TestADelayDoublesUpToItsLimitAndIsShortenedByUpToAFifth(t *testing.T) {
	for _, bounds := range [][2]time.Duration{
		{100 * time.Millisecond, time.Minute}, {1, 1}, {time.Millisecond, 3 * time.Millisecond},
		{1, 1000 * time.Hour}, {1, math.MaxInt64}, {0, time.Hour}, {0, 0},
	} {
		lowest, highest := bounds[0], bounds[1]
		full := lowest
		for attempt := 1; attempt < 200; attempt++ {
			for seed := range uint64(50) {
				d := pace.Delay(attempt, seed, lowest, highest)
				assert.LessOrEqual(t, d, full)
				assert.GreaterOrEqual(t, d, full-full/5)
				assert.Equal(t, d, pace.Delay(attempt, seed, lowest, highest), "a pure function")
			}
			if full <= highest/2 {
				full *= 2
			} else if full > 0 {
				full = highest
			}
		}
	}
	assert.NotEqual(t, pace.Delay(5, 1, time.Second, time.Hour), pace.Delay(5, 2, time.Second, time.Hour), "seeds spread")
}

func TestADelayOfOddArgumentsIsNeitherNegativeNorAnOverflow(t *testing.T) {
	for _, attempt := range []int{math.MinInt, -1, 0, 1, 62, 63, 64, 65, math.MaxInt} {
		for _, lowest := range []time.Duration{math.MinInt64, -1, 0, 1, 3, math.MaxInt64/2 + 1, math.MaxInt64} {
			for _, highest := range []time.Duration{math.MinInt64, -1, 0, 1, time.Hour, math.MaxInt64} {
				d := pace.Delay(attempt, 7, lowest, highest)
				assert.GreaterOrEqual(t, d, time.Duration(0), "%d %d %d", attempt, lowest, highest)
				assert.LessOrEqual(t, d, max(highest, 0), "%d %d %d", attempt, lowest, highest)
			}
		}
	}
}

func TestPausesGrowToTheirLimitAndNeverEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, policy := range []*backoff.ExponentialBackOff{pace.Store(), pace.Conflict()} {
			for range 1000 {
				d := policy.NextBackOff()
				assert.Positive(t, d)
				assert.LessOrEqual(t, d, policy.MaxInterval*3/2)
				assert.True(t, pace.Sleep(t.Context(), d))
			}
		}
	})
}

func TestASleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		assert.True(t, pace.Sleep(t.Context(), time.Minute))
		assert.Equal(t, time.Minute, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.False(t, pace.Sleep(ctx, time.Minute))
		assert.Equal(t, time.Minute+time.Second, time.Since(start))
	})
}

type valueKey struct{}

func TestAContextOutlivesItsParentByTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, end := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "v"))
		ctx, cancel := pace.Outlive(parent, time.Minute)
		defer cancel()
		assert.Equal(t, "v", ctx.Value(valueKey{}))
		end()
		start := time.Now()
		synctest.Wait()
		assert.NoError(t, ctx.Err(), "the grace has begun")
		<-ctx.Done()
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

func TestAContextThatOutlivesEndsWhenItIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, end := context.WithCancel(t.Context())
		running, cancelRunning := pace.Outlive(parent, time.Minute)
		inGrace, cancelInGrace := pace.Outlive(parent, time.Minute)
		cancelRunning()
		assert.Error(t, running.Err())
		end()
		synctest.Wait()
		assert.NoError(t, inGrace.Err())
		cancelInGrace()
		assert.Error(t, inGrace.Err())
	})
}
