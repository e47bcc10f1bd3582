package boltstore

import (
	"fmt"
	"time"

	"github.com/onefold-go/onefold"
)

// limits are the settings at which the store takes no fresh keys; 0 stands for none.
type limits struct {
	bytes        int64
	records      int
	waiting      int
	waitingBytes int64
	waitingAge   time.Duration
}

// usage is what the limits are compared with.
type usage struct {
	bytes        int64 // of all files, without what is free in them
	records      int   // those that have expired and are not collected yet included
	waiting      int   // rows that are not parked
	waitingBytes int64
	oldest       time.Duration // age of the oldest row that is neither parked nor delayed
}

// exceeded returns the limit that u has reached as an ErrFull that says what to do, or nil.
func (l limits) exceeded(u usage) error {
	switch {
	case l.bytes > 0 && u.bytes >= l.bytes:
		return atLimit("MaxBytes", u.bytes, l.bytes, "bytes in use", "raise it, shorten the retention, or let the relay catch up")
	case l.records > 0 && u.records >= l.records:
		return atLimit("MaxRecords", u.records, l.records, "records", "raise it, shorten the retention, or wait until records have expired")
	case l.waiting > 0 && u.waiting >= l.waiting:
		return atLimit("MaxWaiting", u.waiting, l.waiting, "effects waiting", "is a relay running, and do its publishes succeed?")
	case l.waitingBytes > 0 && u.waitingBytes >= l.waitingBytes:
		return atLimit("MaxWaitingBytes", u.waitingBytes, l.waitingBytes, "bytes of effects waiting",
			"is a relay running, and do its publishes succeed?")
	case l.waitingAge > 0 && u.oldest >= l.waitingAge:
		return atLimit("MaxWaitingAge", u.oldest, l.waitingAge, "is the age of the oldest effect waiting",
			"is a relay running, and do its publishes succeed?")
	}
	return nil
}

func atLimit(name string, now, limit any, what, remedy string) error {
	return fmt.Errorf("%w: %v %s, Options.%s is %v; %s", onefold.ErrFull, now, what, name, limit, remedy)
}

// limits are those of the options.
func (o *Options) limits() limits {
	return limits{o.MaxBytes, o.MaxRecords, o.MaxWaiting, o.MaxWaitingBytes, o.MaxWaitingAge}
}

// usage reads the numbers. It is for the writer, once a group: who begins looks at what came of it.
func (s *Store) usage() usage {
	u := usage{bytes: s.bytesInUse(), records: int(max(s.records.Load(), 0))}
	files := s.shelves.present.Load()
	u.records += int(files.records())
	for _, f := range files.segments {
		u.bytes += f.bytes
	}
	for _, x := range files.indexes {
		u.bytes += x.bytes
	}
	q := &s.rows
	q.mu.Lock()
	defer q.mu.Unlock()
	u.waiting, u.waitingBytes = len(q.refs)-q.parked, q.bytes-q.parkedBytes
	if s.options.MaxWaitingAge > 0 {
		u.oldest = q.oldest()
	}
	return u
}

// bytesInUse is what the main file holds. What is free in it does not count: it is used before the file grows.
func (s *Store) bytesInUse() int64 {
	pages := s.db.Stats()
	return s.snap.size.Load() - int64(pages.FreePageN+pages.PendingPageN)*s.mapping.pageSize
}
