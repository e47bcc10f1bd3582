package boltstore

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

var update = flag.Bool("update", false, "write the golden files of the present format version anew")

// goldenDir holds what version 1 of the format has written; it is never changed once it is released.
var goldenDir = filepath.Join("testdata", "golden", "v1")

func sampleKey() onefold.Key { return onefold.Key{Scope: "ORDERS/billing", ID: "order-1", Gen: 2} }

func longKey() onefold.Key {
	return onefold.Key{Scope: "ORDERS/billing", ID: strings.Repeat("x", maxRawKey), Gen: 1}
}

func sampleRecord(f keyForm) record {
	return record{
		form: f, fingerprint: onefold.Fingerprint{Version: 1, Sum: [16]byte{1, 2, 3}}, outcome: onefold.DeadLettered,
		flags: recordHasResult, token: 7<<epochShift | 9, at: 1_900_000_000_000_000_000, expires: time.Hour, result: []byte("result"),
	}
}

func sampleRow() row {
	return row{
		rowHead: rowHead{flags: rowTried | rowHold, attempts: 3, delayed: 1_900_000_000_000_000_001, delay: time.Minute, stored: time.Second, record: 41},
		reason:  "refused",
		key:     sampleKey(),
		effect: onefold.Effect{
			ID: "0123", Kind: onefold.KindMessage, Conn: "west", Target: "a.b", OrderKey: "o", Timer: "t", Once: true,
			Header: onefold.Header{"B": {"2", "3"}, "A": {"1"}}, Payload: []byte("payload"),
			NotBefore: time.Unix(0, 1_900_000_000_000_000_002).UTC(),
		},
	}
}

// samples are one stored value of each kind.
func samples() map[string][]byte {
	raw := formOf(sampleKey(), sampleKey().Append(nil), 5)
	digest := formOf(longKey(), longKey().Append(nil), 0x0102030405060708)
	erased := digestOf(sampleKey().Append(nil), 0x0102030405060708, 2)
	withRaw, withDigest, w := sampleRecord(raw), sampleRecord(digest), sampleRow()
	bare := record{form: erased, outcome: onefold.Succeeded, flags: recordErased | recordResultLost}
	bareRow := row{rowHead: rowHead{delayed: noTime}, key: sampleKey(), effect: onefold.Effect{ID: "1", Kind: "message", Target: "s"}}
	v := value{version: 9, expires: time.Hour, data: []byte("data")}
	a := attempts{starts: 2, failures: 1, first: 1_900_000_000_000_000_003, touched: time.Minute, reason: "boom"}
	h := head{epoch: 3, position: 77, clock: time.Hour, longest: 24 * time.Hour, clean: true}
	return map[string][]byte{
		"key form, raw": raw.append(nil), "key form, digest": digest.append(nil), "key form, erased": erased.append(nil),
		"record": withRaw.append(nil), "record of a long key": withDigest.append(nil), "record, erased": bare.append(nil),
		"row": w.append(nil), "row with little": bareRow.append(nil),
		"value of state": v.append(nil), "key of state": stateKey("table", "key"),
		"key of the expiry index": expiryKey(time.Hour, stateKey("table", "key")),
		"history":                 a.append(nil), "head": h.encode(), "position": position(258), "STORE": []byte(storeMark{1, "00ff"}.text()),
	}
}

func TestStoredValuesHaveTheBytesOfTheirFormatVersion(t *testing.T) {
	path := filepath.Join(goldenDir, "values.txt")
	if *update {
		var b strings.Builder
		for name, v := range samples() {
			fmt.Fprintf(&b, "%s: %s\n", name, hex.EncodeToString(v))
		}
		lines := strings.SplitAfter(b.String(), "\n")
		require.NoError(t, os.MkdirAll(goldenDir, 0o755))
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(sorted(lines), "")), 0o644))
	}
	stored, err := os.ReadFile(path)
	require.NoError(t, err)
	all := samples()
	lines := strings.Split(strings.TrimSpace(string(stored)), "\n")
	assert.Len(t, lines, len(all))
	for _, line := range lines {
		name, want, _ := strings.Cut(line, ": ")
		assert.Equal(t, want, hex.EncodeToString(all[name]), name)
	}
}

func sorted(lines []string) []string {
	h := onefold.Header{}
	for _, l := range lines {
		h[l] = nil
	}
	return sortedNames(h)
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	t.Run("records", func(t *testing.T) {
		for _, k := range []onefold.Key{sampleKey(), longKey(), {ID: "\x00/\n"}} {
			want := sampleRecord(formOf(k, k.Append(nil), 5))
			got, err := parseRecord(want.append(nil))
			require.NoError(t, err)
			assert.Equal(t, want, got)
			assert.True(t, got.form.is(k.Append(nil)))
			assert.LessOrEqual(t, len(want.append(nil)), want.size())
		}
	})
	t.Run("rows", func(t *testing.T) {
		want := sampleRow()
		b := want.append(nil)
		assert.LessOrEqual(t, len(b), want.size())
		got, err := parseRow(b)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		s, err := parseSummary(b)
		require.NoError(t, err)
		assert.Equal(t, rowSummary{
			rowHead: want.rowHead, orderKey: "o", notBefore: want.effect.NotBefore.UnixNano(), timer: "0123", canon: sampleKey().Append(nil),
		}, s)
	})
	t.Run("rows with another head", func(t *testing.T) {
		want := sampleRow()
		b, err := rewriteRow(want.append(nil), rowHead{attempts: 8, delayed: noTime, record: 41}, "other")
		require.NoError(t, err)
		got, err := parseRow(b)
		require.NoError(t, err)
		assert.Equal(t, uint32(8), got.attempts)
		assert.Equal(t, "other", got.reason)
		assert.Equal(t, want.effect.Payload, got.effect.Payload)
	})
	t.Run("heads", func(t *testing.T) {
		want := head{epoch: 3, position: 77, clock: time.Hour, longest: 24 * time.Hour, clean: true}
		got, err := parseHead(want.encode())
		require.NoError(t, err)
		assert.Equal(t, want, got)
	})
	t.Run("marks", func(t *testing.T) {
		want := storeMark{1, "00ff"}
		got, err := parseStoreMark([]byte(want.text() + "line of a later version\n"))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	})
}

func TestTimesBeyondNanosecondsAreKeptAsTheLastOneThatFits(t *testing.T) {
	assert.Equal(t, int64(noTime), unixOrNone(time.Time{}))
	assert.Positive(t, unixOrNone(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)))
	assert.Zero(t, unixOrNone(time.Date(1800, 1, 1, 0, 0, 0, 0, time.UTC)))
}

func TestFieldsFilledInLaterStandWhereTheyAreRead(t *testing.T) {
	r := sampleRecord(formOf(sampleKey(), sampleKey().Append(nil), 5))
	b := r.append(nil)
	stampRecord(b, 11, 12)
	got, err := parseRecord(b)
	require.NoError(t, err)
	assert.Equal(t, int64(11), got.at)
	assert.Equal(t, time.Duration(12), got.expires)

	w := sampleRow()
	b = w.append(nil)
	stampRow(b, 13, 14)
	row, err := parseRow(b)
	require.NoError(t, err)
	assert.Equal(t, time.Duration(13), row.stored)
	assert.Equal(t, uint64(14), row.record)

	v := value{data: []byte("x")}
	b = v.append(nil)
	stampValue(b, 15, 16)
	stored, err := parseValue(b)
	require.NoError(t, err)
	assert.Equal(t, value{15, 16, []byte("x")}, stored)
}

func TestFormsOfOneKeyAreTheSameKey(t *testing.T) {
	canon, other := sampleKey().Append(nil), longKey().Append(nil)
	raw, digest := keyForm{raw: canon}, digestOf(canon, 5, 2)
	stranger := digestOf(other, 5, 2)
	assert.True(t, raw.same(&raw))
	assert.True(t, raw.same(&digest))
	assert.True(t, digest.same(&raw))
	assert.True(t, digest.same(&digest))
	assert.False(t, raw.same(&stranger))
	assert.False(t, stranger.same(&raw))
	assert.False(t, digest.same(&stranger))
}

// FuzzParsers feeds damaged bytes to everything that reads stored values: no panic, and what is accepted
// can be written again to the same value.
func FuzzParsers(f *testing.F) {
	for _, v := range samples() {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := parseRecord(b); err == nil {
			again, err := parseRecord(r.append(nil))
			require.NoError(t, err)
			require.Equal(t, r, again)
			_ = r.public(onefold.Key{})
		}
		if w, err := parseRow(b); err == nil {
			again, err := parseRow(w.append(nil))
			require.NoError(t, err)
			require.True(t, bytes.Equal(w.append(nil), again.append(nil)))
		}
		_, _ = parseSummary(b)
		_, _ = rewriteRow(b, rowHead{}, "")
		if form, err := parseForm(b); err == nil {
			_ = form.key()
			require.True(t, bytes.Equal(b, form.append(nil)))
		}
		_, _ = parseValue(b)
		_, _, _ = parseStateKey(b)
		_, _, _ = parseExpiryKey(b)
		_, _ = parseAttempts(b)
		_, _ = parseHead(b)
		_, _ = parsePosition(b)
		_, _ = parseStoreMark(b)
	})
}
