package boltstore

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

// TestACallThatCloseOvertakesDoesNotTakeADoneKeyForFresh stands where Begin stands when it has been let in and
// Close has come to its end meanwhile.
func TestACallThatCloseOvertakesDoesNotTakeADoneKeyForFresh(t *testing.T) {
	s := opened(t, t.TempDir(), &Options{SegmentRecords: 1})
	require.NoError(t, stored(t, s, entryOf("a")))
	require.NoError(t, stored(t, s, entryOf("b")))
	s.keepUpNow()
	k := ofID("a")
	canon := canonOf(&k)
	hash := s.hash(canon)
	require.NoError(t, s.Close(context.Background()))
	st := s.stripe(hash)
	st.mu.Lock()
	defer st.mu.Unlock()
	_, _, err := s.find(st, hash, canon, nil)
	require.ErrorIs(t, err, onefold.ErrClosed)
	_, err = s.findSealed(hash, canon)
	require.ErrorIs(t, err, onefold.ErrClosed)
}
