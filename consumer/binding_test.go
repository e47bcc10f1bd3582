package consumer

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func TestAStoreIsAdmittedIfItIsTheOneNotedAndNotBehindIt(t *testing.T) {
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	noted := binding{Store: "A", Epoch: 5, Position: 100}
	for name, c := range map[string]struct {
		noted, own binding
		unknown    uint64
		want       string // empty: admitted
	}{
		"nothing is noted":                        {binding{}, binding{Store: "B"}, 0, ""},
		"the same, opened again":                  {noted, binding{"A", 6, 120, false}, 0, ""},
		"the same, still open":                    {noted, noted, 0, ""},
		"another":                                 {noted, binding{"B", 9, 900, false}, 0, "it goes with store A (epoch 5, position 100), and this is store B, made 2026-01-02T03:04:05Z"},
		"an empty one":                            {noted, binding{"B", 1, 0, false}, 0, "this store, B, made 2026-01-02T03:04:05Z, is empty"},
		"an older copy, by its epoch":             {noted, binding{"A", 4, 120, false}, 0, "older copy of it (epoch 4, position 120)"},
		"an older copy, by its position":          {noted, binding{"A", 4101, 99, false}, 0, "older copy of it (epoch 4101, position 99)"},
		"an older copy, by what it does not know": {noted, binding{"A", 4101, 100, false}, 77, "stream message 77 is acked"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.noted.admits(c.own, made, c.unknown)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrWrongStore)
			assert.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, "Config.AdoptDurable")
		})
	}
}

func TestABindingComesBackFromMetadataAndLeavesTheRestOfItAlone(t *testing.T) {
	b := binding{Store: "A", Epoch: 5, Position: 1 << 63}
	had := map[string]string{"team": "billing"}
	noted := b.noted(had)
	assert.Equal(t, "billing", noted["team"])
	assert.Len(t, had, 1)
	got, err := bindingOf(noted)
	require.NoError(t, err)
	assert.Equal(t, b, got)
	got, err = bindingOf(nil)
	require.NoError(t, err)
	assert.Zero(t, got)
	noted[metaEpoch] = "many"
	_, err = bindingOf(noted)
	require.ErrorIs(t, err, ErrWrongStore)
	assert.ErrorContains(t, err, `onefold.epoch is "many"`)
}

func TestALiveProcessExcludesOthersUnlessTheyShareItsStore(t *testing.T) {
	own := presence{Session: 1, Store: "A", Shared: true}
	other := presence{Session: 2, Store: "A", Shared: true, Host: "db-1", PID: 4711}
	require.NoError(t, own.excludes(other))
	require.NoError(t, own.excludes(own))
	single := other
	single.Shared = false
	require.ErrorIs(t, own.excludes(single), ErrServedElsewhere, "a copy of a directory has the same identity")
	foreign := other
	foreign.Store = "B"
	err := own.excludes(foreign)
	require.ErrorIs(t, err, ErrServedElsewhere)
	assert.ErrorContains(t, err, "process 4711 on db-1")
}

func TestWhatIsGoneIsTriedForTheStatedTimeAndWhatCannotBeReachedForEver(t *testing.T) {
	gone := jetstream.ErrStreamNotFound
	p := patience{limit: time.Minute}
	assert.False(t, p.goesOn(gone, 0), "it was never there")
	p.served = true
	assert.True(t, p.goesOn(gone, time.Hour))
	assert.True(t, p.goesOn(gone, time.Hour+59*time.Second))
	assert.False(t, p.goesOn(gone, time.Hour+time.Minute))
	assert.True(t, p.goesOn(onefold.ErrUnavailable, 9*time.Hour))
	assert.True(t, p.goesOn(gone, 10*time.Hour), "while it could not be asked for, it was not known to be gone")
	assert.False(t, p.goesOn(errors.New("other"), 10*time.Hour))
}

func TestWhichErrorsOfPullsEndASession(t *testing.T) {
	for err, want := range map[error]bool{
		jetstream.ErrConnectionClosed: true, jetstream.ErrConsumerDeleted: true, jetstream.ErrConsumerNotFound: true,
		jetstream.ErrStreamNotFound: true, jetstream.ErrBadRequest: true,
		jetstream.ErrConsumerLeadershipChanged: false, jetstream.ErrNoHeartbeat: false, jetstream.ErrServerShutdown: false,
		jetstream.ErrMaxBytesExceeded: false,
	} {
		assert.Equal(t, want, fatalPullError(err), "%v", err)
	}
}

func TestWhatAStreamHasLostIsSaid(t *testing.T) {
	f := floor{Created: 5, At: sample{Sequence: 7}, Seen: 9}
	assert.Empty(t, floor{}.lost(5, 0), "it was never met")
	assert.Empty(t, f.lost(5, 9))
	assert.Contains(t, f.lost(5, 8), "ends at position 8, and 9 had been seen")
	assert.Contains(t, f.lost(6, 0), "made anew at 1970-01-01T00:00:00Z: of the former one positions up to 9")
}

func TestADurableThatMayNotBeChangedHasToFit(t *testing.T) {
	fits := jetstream.ConsumerConfig{AckWait: time.Minute, MaxAckPending: 5, MaxDeliver: -1, FilterSubject: "in.a"}
	require.NoError(t, checkBound(fits, Config{}))
	require.NoError(t, checkBound(fits, Config{AckWait: time.Minute, MaxAckPending: 5, FilterSubjects: []string{"in.a"}}))
	bad := fits
	bad.MaxDeliver, bad.BackOff = 9, []time.Duration{time.Second}
	err := checkBound(bad, Config{AckWait: time.Second, MaxAckPending: 6, FilterSubjects: []string{"in.b"}})
	require.ErrorIs(t, err, onefold.ErrInvalid)
	for _, want := range []string{"MaxDeliver is 9", "BackOff is [1s]", "AckWait is 1m0s and Config.AckWait 1s",
		"MaxAckPending is 5 and Config.MaxAckPending 6", `filter subjects are ["in.a"] and Config.FilterSubjects ["in.b"]`} {
		assert.ErrorContains(t, err, want)
	}
}
