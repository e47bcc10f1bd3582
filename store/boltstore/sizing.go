package boltstore

import (
	"fmt"
	"math"
	"time"

	"github.com/onefold-go/onefold"
)

// Expectation is how much a store is expected to hold: Rate x Retain records of RecordBytes each. See
// docs/operations.md for what else takes room.
type Expectation struct {
	Rate        float64       // entries a second, the mean over Retain
	Retain      time.Duration // their retention
	RecordBytes int           // of one record on the disk; 0: DefaultRecordBytes
}

// DefaultRecordBytes is what a record takes on the disk with an ID of 32 bytes, no result and no effects left.
const DefaultRecordBytes = 130

// check compares what is expected with the limits. Errors: ErrInvalid.
func (e Expectation) check(l limits) error {
	if e == (Expectation{}) {
		return nil
	}
	switch {
	case !(e.Rate > 0) || math.IsInf(e.Rate, 1):
		return fmt.Errorf("%w: Options.Expect.Rate is %v; give entries a second, above 0, or leave Expect out", onefold.ErrInvalid, e.Rate)
	case e.Retain <= 0:
		return fmt.Errorf("%w: Options.Expect.Retain is %v; give the retention of the entries", onefold.ErrInvalid, e.Retain)
	case e.RecordBytes < 0:
		return fmt.Errorf("%w: Options.Expect.RecordBytes is %d; use 0 for the default", onefold.ErrInvalid, e.RecordBytes)
	}
	each := orDefault(e.RecordBytes, DefaultRecordBytes)
	records := e.Rate * e.Retain.Seconds()
	if l.records > 0 && records > float64(l.records) {
		return fmt.Errorf("%w: Options.Expect: %v entries/s x %v = %.0f records, MaxRecords is %d; raise MaxRecords, shorten the retention to %v or less, or partition the stream over several stores",
			onefold.ErrInvalid, e.Rate, e.Retain, records, l.records, e.longest(float64(l.records)))
	}
	if size := records * float64(each); l.bytes > 0 && size > float64(l.bytes) {
		return fmt.Errorf("%w: Options.Expect: %v entries/s x %v x %d bytes = %.0f bytes, MaxBytes is %d; raise MaxBytes, shorten the retention to %v or less, or partition the stream over several stores",
			onefold.ErrInvalid, e.Rate, e.Retain, each, size, l.bytes, e.longest(float64(l.bytes)/float64(each)))
	}
	return nil
}

// longest is the retention at which so many records fit.
func (e Expectation) longest(records float64) time.Duration {
	seconds := math.Floor(records / e.Rate)
	return time.Duration(seconds) * time.Second
}
