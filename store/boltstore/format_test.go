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
	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

var update = flag.Bool("update", false, "write the golden files of the present format version anew")

// goldenDir holds what one version of the format has written; it is never changed once it is released.
func goldenDir(version int) string {
	return filepath.Join("testdata", "golden", fmt.Sprint("v", version))
}

var sampleSecret = hashKey{1, 2}

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
		rowHead: rowHead{flags: rowTried | rowHold | rowOnce, attempts: 3, delayed: 1_900_000_000_000_000_001, delay: time.Minute, stored: time.Second,
			wall: 1_900_000_000_000_000_004, parkedAt: 1_900_000_000_000_000_005, record: 41},
		reason: "refused",
		key:    sampleKey(),
		effect: onefold.Effect{
			ID: "0123", Kind: onefold.KindMessage, Conn: "west", Target: "a.b", OrderKey: "o", Timer: "t", Once: true,
			Header: onefold.Header{"B": {"2", "3"}, "A": {"1"}}, Payload: []byte("payload"),
			NotBefore: time.Unix(0, 1_900_000_000_000_000_002).UTC(),
		},
	}
}

// sampled are one of everything that is stored as a value.
func sampled() map[string]any {
	return map[string]any{
		"record":               sampleRecord(keyForm{raw: sampleKey().Append(nil)}),
		"record of a long key": sampleRecord(keyForm{raw: longKey().Append(nil)}),
		"record, erased": record{
			form: digestOf(sampleKey().Append(nil), 0x0102030405060708, sampleSecret), outcome: onefold.Succeeded,
			flags: recordErased | recordResultLost, result: []byte{},
		},
		"row": sampleRow(),
		"row with little": row{
			rowHead: rowHead{delayed: noTime, parkedAt: noTime}, key: sampleKey(), effect: onefold.Effect{ID: "1", Kind: "message", Target: "s"},
		},
		"value of state": value{version: 9, expires: time.Hour, data: []byte("data")},
		"history":        attempts{starts: 2, failures: 1, first: 1_900_000_000_000_000_003, touched: time.Minute, reason: "boom"},
		"head":           head{epoch: 3, position: 77, clock: time.Hour, longest: 24 * time.Hour, clean: true},
		"timer":          uint64(258),
		"tally":          tally{8, 7, 6, 5, 4, 3, 2, 1},
	}
}

// encode returns the present layout of a value, without its checksum.
func encode(v any) []byte {
	switch v := v.(type) {
	case record:
		return v.append(nil)
	case row:
		return v.append(nil)
	case value:
		return v.append(nil)
	case attempts:
		return v.append(nil)
	case head:
		return v.encode()
	case tally:
		return v.encode()
	case uint64:
		return timerValue(v)
	}
	return nil
}

// parse reads a value of the type of like.
func parse(like any, b []byte) (any, error) {
	switch like.(type) {
	case record:
		return parseRecord(b)
	case row:
		return parseRow(b)
	case value:
		return parseValue(b)
	case attempts:
		return parseAttempts(b)
	case head:
		return parseHead(b)
	case tally:
		return parseTally(b)
	}
	return parseTimerValue(b)
}

// sampleAt is the bucket key of all samples.
var sampleAt = position(258)

// samples are one of each kind of stored bytes.
func samples() map[string][]byte {
	raw := keyForm{raw: sampleKey().Append(nil)}
	digest := historyForm(longKey().Append(nil), 0x0102030405060708, sampleSecret)
	erased := digestOf(sampleKey().Append(nil), 0x0102030405060708, sampleSecret)
	all := map[string][]byte{
		"key form, raw": raw.append(nil), "key form, digest": digest.append(nil), "key form, erased": erased.append(nil),
		"key of state":            stateKey("table", "key"),
		"key of the expiry index": expiryKey(time.Hour, stateKey("table", "key")), "position": sampleAt,
		"STORE": []byte(storeMark{format: 2, id: "00ff", epoch: 3, position: 77, closed: true}.text()),
	}
	for name, v := range sampled() {
		all[name] = sum.Append(sampleAt, encode(v))
	}
	return all
}

// goldenValues reads the values that a version has written.
func goldenValues(t *testing.T, version int) map[string][]byte {
	t.Helper()
	stored, err := os.ReadFile(filepath.Join(goldenDir(version), "values.txt"))
	require.NoError(t, err)
	all := map[string][]byte{}
	for line := range strings.Lines(string(stored)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		all[name], err = hex.DecodeString(text)
		require.NoError(t, err)
	}
	return all
}

func TestStoredValuesHaveTheBytesOfTheirFormatVersion(t *testing.T) {
	if *update {
		var b strings.Builder
		for name, v := range samples() {
			fmt.Fprintf(&b, "%s: %s\n", name, hex.EncodeToString(v))
		}
		lines := strings.SplitAfter(b.String(), "\n")
		require.NoError(t, os.MkdirAll(goldenDir(FormatVersion), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(goldenDir(FormatVersion), "values.txt"), []byte(strings.Join(sorted(lines), "")), 0o644))
	}
	golden, all := goldenValues(t, FormatVersion), samples()
	assert.Len(t, golden, len(all))
	for name, want := range golden {
		assert.Equal(t, hex.EncodeToString(want), hex.EncodeToString(all[name]), name)
	}
}

func TestStoredValuesOfEveryVersionAreReadAsWhatTheyAre(t *testing.T) {
	for version := 1; version <= FormatVersion; version++ {
		golden, read := goldenValues(t, version), 0
		for name, want := range sampled() {
			stored, ok := golden[name]
			if !ok {
				continue // a later version has added it
			}
			b, err := checked(sampleAt, stored)
			require.NoError(t, err, name)
			got, err := parse(want, b)
			require.NoError(t, err, name)
			assert.Equal(t, want, got, "version %d: %s", version, name)
			read++
		}
		assert.GreaterOrEqual(t, read, 8)
		_, err := parseStoreMark(golden["STORE"])
		require.NoError(t, err)
	}
}

func TestAValueThatIsNotTheOneThatWasWrittenIsDamage(t *testing.T) {
	for name, v := range sampled() {
		stored := sum.Append(sampleAt, encode(v))
		for bit := range len(stored) * 8 {
			stored[bit/8] ^= 1 << (bit % 8)
			b, err := checked(sampleAt, stored)
			if err == nil {
				_, err = parse(v, b)
			}
			require.Error(t, err, "%s, bit %d", name, bit)
			stored[bit/8] ^= 1 << (bit % 8)
		}
		for n := range len(stored) {
			b, err := checked(sampleAt, stored[:n])
			if err == nil {
				_, err = parse(v, b)
			}
			require.Error(t, err, "%s, %d bytes of it", name, n)
		}
		_, err := checked(position(259), stored)
		require.ErrorIs(t, err, sum.Err, "%s, under another key", name)
	}
}

func TestAChecksumNeedsNoRoomOfItsOwn(t *testing.T) {
	value := append(make([]byte, 0, 100), valueV2)
	assert.Zero(t, testing.AllocsPerRun(10, func() { _ = sum.Append(sampleAt, value) }))
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
			want := sampleRecord(keyForm{raw: k.Append(nil)})
			got, err := parseRecord(want.append(nil))
			require.NoError(t, err)
			assert.Equal(t, want, got)
			assert.True(t, got.form.is(k.Append(nil), 5, sampleSecret))
			assert.Equal(t, k, got.public(onefold.Key{}).Key, "the whole key is shown, however long")
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
		want := storeMark{format: 2, id: "00ff", epoch: 3, position: 77, closed: true}
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
	r := sampleRecord(keyForm{raw: sampleKey().Append(nil)})
	b := r.append(nil)
	stampRecord(b, 11, 12)
	got, err := parseRecord(b)
	require.NoError(t, err)
	assert.Equal(t, int64(11), got.at)
	assert.Equal(t, time.Duration(12), got.expires)

	w := sampleRow()
	b = w.append(nil)
	stampRow(b, 13, 17, 14)
	row, err := parseRow(b)
	require.NoError(t, err)
	assert.Equal(t, time.Duration(13), row.stored)
	assert.Equal(t, uint64(14), row.record)
	assert.Equal(t, int64(17), row.wall)
	assert.Equal(t, w.parkedAt, row.parkedAt)

	v := value{data: []byte("x")}
	b = v.append(nil)
	stampValue(b, 15, 16)
	stored, err := parseValue(b)
	require.NoError(t, err)
	assert.Equal(t, value{15, 16, []byte("x")}, stored)
}

func TestFlagsOfANewerVersionAreRefusedByName(t *testing.T) {
	record := sampleRecord(keyForm{raw: sampleKey().Append(nil)})
	stored := record.append(nil)
	stored[1] |= 0x80
	_, err := parseRecord(stored)
	require.ErrorIs(t, err, onefold.ErrNewerFormat)
	assert.ErrorContains(t, err, "record has flags 0x80")
	stored = record.append(nil)
	stored[2] = 9
	_, err = parseRecord(stored)
	require.ErrorIs(t, err, onefold.ErrNewerFormat)
	assert.ErrorContains(t, err, "outcome 9")

	row := sampleRow()
	stored = row.append(nil)
	stored[1] |= 0x40
	_, err = parseRow(stored)
	require.ErrorIs(t, err, onefold.ErrNewerFormat)
	_, err = parseSummary(stored)
	require.ErrorIs(t, err, onefold.ErrNewerFormat)
	_, err = parseRowHead(stored)
	require.ErrorIs(t, err, onefold.ErrNewerFormat)
	assert.ErrorContains(t, err, "row has flags 0x40")

	h := head{}
	stored = h.encode()
	stored[1] |= 0x02
	_, err = parseHead(stored)
	require.ErrorIs(t, err, onefold.ErrNewerFormat)
	assert.ErrorContains(t, err, "head has flags 0x02")
}

func TestFormsOfOneKeyAreTheSameKey(t *testing.T) {
	canon, other := sampleKey().Append(nil), longKey().Append(nil)
	raw, digest := keyForm{raw: canon}, digestOf(canon, 5, sampleSecret)
	stranger := digestOf(other, 5, sampleSecret)
	assert.True(t, raw.same(&raw, sampleSecret))
	assert.True(t, raw.same(&digest, sampleSecret))
	assert.True(t, digest.same(&raw, sampleSecret))
	assert.True(t, digest.same(&digest, sampleSecret))
	assert.False(t, raw.same(&stranger, sampleSecret))
	assert.False(t, stranger.same(&raw, sampleSecret))
	assert.False(t, digest.same(&stranger, sampleSecret))
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
