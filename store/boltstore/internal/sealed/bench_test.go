package sealed

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
)

const benchEntries = 200_000

func BenchmarkMayHave(b *testing.B) {
	x := index(b, entriesOf(1, benchEntries, whole))
	random := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		x.MayHave(random.Uint64())
	}
}

func BenchmarkProbeEight(b *testing.B) {
	var planes []Plane
	for i := range BankWidth {
		planes = append(planes, index(b, entriesOf(uint64(i+1), benchEntries, whole)).TakeFilter())
	}
	bank, err := NewBank(planes, func() error { return nil })
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		bank.Probe(random.Uint64())
	}
}

func BenchmarkFind(b *testing.B) {
	entries := entriesOf(1, benchEntries, whole)
	x := index(b, entries)
	var positions []uint64
	i := 0
	for b.Loop() {
		i = (i + 7919) % len(entries)
		positions, _ = x.Find(positions[:0], entries[i].Hash)
	}
}

func BenchmarkGet(b *testing.B) {
	r := segment(b, 1, benchEntries, recordOf)
	p := uint64(0)
	for b.Loop() {
		p = (p + 3*7919) % (benchEntries - 10)
		_, _ = r.Get(p/3*3 + 2)
	}
}

// BenchmarkWrite measures one record of a segment file, and one entry of its index, sorting included.
func BenchmarkWrite(b *testing.B) {
	b.Run("records", func(b *testing.B) {
		w, err := CreateRecords(filepath.Join(b.TempDir(), "a.seg"), Head{First: 1, End: 1 << 60})
		if err != nil {
			b.Fatal(err)
		}
		record := make([]byte, 97)
		p := uint64(0)
		for b.Loop() {
			p++
			_ = w.Add(p, record)
		}
		_, _, err = w.Finish()
		if err != nil {
			b.Fatal(err)
		}
	})
	b.Run("index", func(b *testing.B) {
		entries := entriesOf(1, b.N, whole)
		b.ResetTimer()
		slices.SortFunc(entries, Entry.Order)
		w, err := CreateIndex(filepath.Join(b.TempDir(), "a.idx"), Head{First: 1, End: 1 << 60, Records: uint64(b.N)})
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range entries {
			_ = w.Add(e)
		}
		if _, _, err := w.Finish(); err != nil {
			b.Fatal(err)
		}
	})
}
