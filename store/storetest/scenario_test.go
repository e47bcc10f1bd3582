package storetest

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/memstore"
)

// loose is a table without a unique constraint that processes share: whoever asks for a key looks for its record, and
// takes the key if there is none; what is committed is inserted, whatever was inserted for that key before.
type loose struct {
	onefold.Store
	tokens *atomic.Uint64
}

func (s loose) Info() onefold.Info {
	info := s.Store.Info()
	info.OneProcess, info.Expiry = false, onefold.ExpiryServer
	return info
}

func (s loose) Begin(ctx context.Context, r onefold.Request) (onefold.Grant, error) {
	found, err := s.Lookup(ctx, r.Key)
	switch {
	case err == nil && found.Fingerprint != r.Fingerprint:
		return onefold.Grant{Verdict: onefold.Mismatch, Record: &found, Held: found.Fingerprint}, nil
	case err == nil:
		return onefold.Grant{Verdict: onefold.Done, Record: &found}, nil
	case !errors.Is(err, onefold.ErrNotFound):
		return onefold.Grant{}, err
	}
	return onefold.Grant{Verdict: onefold.Granted, Claim: &onefold.Claim{Key: r.Key, Token: s.tokens.Add(1), Lease: r.Lease}}, nil
}

func (loose) Renew(context.Context, *onefold.Claim, time.Duration) error     { return nil }
func (loose) Release(context.Context, *onefold.Claim, onefold.Failure) error { return nil }

func (s loose) Commit(ctx context.Context, batch []*onefold.Commit) error {
	for _, c := range batch {
		row := onefold.Commit{Entry: c.Entry}
		if _, err := s.Lookup(ctx, c.Entry.Key); err == nil { // a second row, which nothing keeps out
			row.Entry.Key.Scope += " again " + strconv.FormatUint(s.tokens.Add(1), 10)
		}
		if err := s.Store.Commit(ctx, []*onefold.Commit{&row}); err != nil {
			return err
		}
		c.Err = row.Err
	}
	return nil
}

func openLoose(t testing.TB, clock onefold.Clock) Instance {
	m, err := memstore.Open(memstore.NewData(clock), &memstore.Options{Clock: clock})
	require.NoError(t, err)
	s := loose{m, &atomic.Uint64{}}
	return Instance{Store: s, Another: func(testing.TB) (onefold.Store, error) { return handle{newShared(s)}, nil }}
}

func TestScenario_D03_AStoreWithoutRealUniquenessFailsTheSuite(t *testing.T) {
	sound, broken := Harness{Open: openShared}, Harness{Open: openLoose}
	for _, rule := range []string{
		"one of fifty callers is granted", "busy changes nothing", "duplicates that race the commit are never granted", "a wrong token is refused",
		"handles share claims and outcomes", "one of many callers on two handles is granted", "a claim is overtaken through another handle",
		"one claim committed from many goroutines is stored once", "without a claim an equal entry is success once",
	} {
		assert.True(t, passes(t, sound, rule, patience), "%q must pass on a sound store", rule)
		assert.False(t, passes(t, broken, rule, time.Second), "%q must fail", rule)
	}
	for _, rule := range []string{"an ID may hold any bytes", "equal contents are not equal work"} {
		assert.True(t, passes(t, broken, rule, patience), "%q: one caller after the other meets no fault", rule)
	}
}
