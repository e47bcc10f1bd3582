package boltstore

import (
	"sync"
	"sync/atomic"
	"time"
)

// marks are the records of erased keys whose segments are frozen or sealed, by position. Such a segment is
// not changed: what stands here counts instead, until the segment is written anew or ends.
type marks struct {
	mu   sync.RWMutex
	at   map[uint64]mark
	some atomic.Bool // there are any
}

type mark struct {
	record []byte        // stored form without checksum
	since  time.Duration // monotonic
}

// of returns the mark at a position, or nil.
func (m *marks) of(at uint64) []byte {
	if !m.some.Load() {
		return nil // nearly always
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.at[at].record
}

func (m *marks) set(at uint64, record []byte, now time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil {
		m.at = map[uint64]mark{}
	}
	m.at[at] = mark{record, now}
	m.some.Store(true)
}

// forget drops the marks of some positions.
func (m *marks) forget(list []uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range list {
		delete(m.at, at)
	}
	m.some.Store(len(m.at) > 0)
}

// within returns the positions of the marks in a range.
func (m *marks) within(p positions) (list []uint64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for at := range m.at {
		if p.first <= at && at < p.end {
			list = append(list, at)
		}
	}
	return list
}

// before returns the positions of the marks that were set before this time.
func (m *marks) before(mono time.Duration) (list []uint64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for at, one := range m.at {
		if one.since < mono {
			list = append(list, at)
		}
	}
	return list
}

func (m *marks) count() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.at)
}
