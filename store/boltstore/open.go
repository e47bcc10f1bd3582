package boltstore

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/guard"
)

// Open opens the store in dir and makes it, directory included, if there is none. o may be nil. Exactly
// one process at a time has a store open; close it with [Store.Close].
//
// A store that cannot be used is never replaced by an empty one: an empty store would let every message
// happen again. What was left of a creation that was cut short is completed.
//
// Errors: [onefold.ErrInUse] (another process has it open and did not close it within Options.LockWait),
// [onefold.ErrNotStore] (dir is a file, holds other files, or main.db belongs to someone else),
// [onefold.ErrDamaged], [onefold.ErrNewerFormat], [onefold.ErrInvalid], and errors of the file system.
func Open(dir string, o *Options) (*Store, error) {
	options, err := o.checked()
	if err != nil {
		return nil, err
	}
	if dir == "" {
		return nil, fmt.Errorf("%w: dir is empty; name a directory", onefold.ErrInvalid)
	}
	if dir, err = filepath.Abs(dir); err != nil { // the program may change its directory
		return nil, err
	}
	s := newStore(dir, options)
	err = guard.Run("open "+dir, s.open)
	var p *guard.PanicError
	if errors.As(err, &p) {
		err = fmt.Errorf("%w; restore the directory from a backup", err)
	}
	if err != nil {
		if s.db != nil {
			s.snap.close(err)
			_ = guard.Run("close", s.db.Close)
		}
		_ = closeAll(s.shelves.replace(&shelf{}))
		return nil, err
	}
	go s.write()
	go s.keepUp()
	return s, nil
}

func newStore(dir string, o Options) *Store {
	s := &Store{
		dir: dir, path: mainPath(dir), started: time.Now(), options: o, clock: o.Clock, hashMask: ^uint64(0),
		closing: make(chan struct{}), written: make(chan struct{}), kept: make(chan struct{}), upkeepDue: make(chan struct{}, 1), upkeepTurn: make(chan struct{}, 1),
	}
	s.queue.wake = make(chan struct{}, 1)
	if o.hooks.hashBits > 0 {
		s.hashMask <<= 64 - o.hooks.hashBits
	}
	for i := range s.stripes {
		s.stripes[i] = stripe{
			claims: map[uint64]*claim{}, active: newPart(0), history: map[string]*history{},
		}
	}
	s.rows, s.attention = newRowQueue(s), attention{}
	return s
}

// open does the steps of Open up to a store that only lacks its writer.
func (s *Store) open() error {
	deadline := time.Now().Add(max(s.options.LockWait, 0))
	if err := prepareDir(s.dir, s.restoring); err != nil {
		return err
	}
	db, err := s.openFile(deadline)
	if err != nil {
		return err
	}
	s.db = db
	mark, marked, err := s.settleIdentity()
	if err != nil {
		return err
	}
	if s.mapping, err = newMapping(db, s.path, s.options.MmapBytes, s.largest); err != nil {
		return fmt.Errorf("open %s: %w", s.dir, err)
	}
	if err := s.start(mark); err != nil {
		return err
	}
	if !marked {
		if err := syncAbove(s.dir); err != nil {
			return fmt.Errorf("create store in %s: %w", s.dir, err)
		}
	}
	if err := s.noteEpoch(marked); err != nil {
		return fmt.Errorf("open %s: %w", s.dir, err)
	}
	// The file has been checked, and a write to it has succeeded: a fail stop is over.
	if err := removeCheckMark(s.dir); err != nil {
		return fmt.Errorf("open %s: %w", s.dir, err)
	}
	if err := leftAside(s.dir); err != nil {
		return fmt.Errorf("open %s: %w", s.dir, err)
	}
	if err := s.snap.renew(db); err != nil {
		return err
	}
	s.lookAtLimits()
	return nil
}

// settleIdentity makes sure, now that the file is locked, that the store is complete and ours. Without STORE
// it completes a creation that was cut short; STORE itself is written when the first epoch is counted.
func (s *Store) settleIdentity() (mark storeMark, marked bool, err error) {
	mark, marked, err = readStoreMark(s.dir)
	if err != nil {
		return mark, marked, err
	}
	if !marked {
		if err := s.create(); err != nil {
			return mark, marked, fmt.Errorf("create store in %s: %w", s.dir, err)
		}
	}
	err = s.db.View(s.readIdentity)
	if err != nil {
		return mark, marked, fmt.Errorf("open %s: %w", s.dir, err)
	}
	if marked && mark.id != s.info.ID {
		return mark, marked, fmt.Errorf("%w: %s holds store %s and the directory was made for %s; put the right file back",
			onefold.ErrDamaged, s.path, s.info.ID, mark.id)
	}
	return mark, marked, nil
}

// create makes the buckets of an empty store, unless an earlier try has come so far.
func (s *Store) create() error {
	made := false
	err := s.db.View(func(tx *bolt.Tx) error {
		made = tx.Bucket(rootName) != nil
		return nil
	})
	if err != nil || made {
		return err
	}
	return guard.Update("create", s.db, func(tx *bolt.Tx) error {
		return createBuckets(tx, random(), random(), s.clock.Wall().UnixNano())
	})
}

// readIdentity reads what never changes.
func (s *Store) readIdentity(tx *bolt.Tx) error {
	b, err := bucketsOf(tx)
	if err != nil {
		return err
	}
	if v := formatOf(b.meta); v > FormatVersion {
		return newerFormat(v)
	}
	if err := checkConstants(b.meta.Get); err != nil {
		return fmt.Errorf("%w; restore the directory from a backup", err)
	}
	created := b.meta.Get(metaCreated)
	s.id = [16]byte(b.meta.Get(metaID))
	var id string
	id, s.hashKey = identity(b.meta.Get)
	s.info = onefold.Info{
		Kind: Kind, ID: id, Created: time.Unix(0, int64(binary.BigEndian.Uint64(created))).UTC(),
		OneProcess: true, OneFeed: true, Ordered: true, Timers: true, Expiry: onefold.ExpiryStore, Durable: true,
		MaxEntry: s.options.MaxEntry, FailureLag: s.options.FailureLag,
	}
	return nil
}

func newerFormat(found uint32) error {
	return fmt.Errorf("%w: format is %d, this version reads up to %d; use the newer version, or a backup made before it",
		onefold.ErrNewerFormat, found, FormatVersion)
}

// start loads what memory holds and then counts the epoch. Nothing is written to a file that cannot be
// loaded.
func (s *Store) start(mark storeMark) error {
	err := s.db.View(func(tx *bolt.Tx) error {
		b, err := bucketsOf(tx)
		if err != nil {
			return err
		}
		if s.head, err = readHead(b.meta.Get); err != nil {
			return err
		}
		if err := mark.outdated(&s.head); err != nil {
			return err
		}
		s.info.Clean, s.info.Position = s.head.clean, s.head.position
		s.base, s.opened = s.head.clock, s.clock.Mono()
		list, err := readRegistry(b.meta.Get)
		if err != nil {
			return err
		}
		if err := s.openShelf(list); err != nil {
			return err
		}
		if err := s.loadMemory(&b); err != nil {
			return err
		}
		return s.removeLeftovers(list)
	})
	if err == nil {
		err = s.countEpoch()
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", s.dir, err)
	}
	return nil
}

// countEpoch makes the new epoch durable before a token with it is given out. The same transaction raises the
// format of a store that an older version has written.
func (s *Store) countEpoch() error {
	s.head.epoch++
	if s.restoring {
		s.head.epoch += restoredEpochs
	}
	if s.head.epoch >= maxEpoch {
		return fmt.Errorf("%w: epoch %d does not fit into tokens; begin a new store", onefold.ErrFull, s.head.epoch)
	}
	s.head.clean, s.info.Epoch = false, s.head.epoch
	err := guard.Update("count the epoch", s.db, func(tx *bolt.Tx) error {
		b, err := bucketsOf(tx)
		if err != nil {
			return err
		}
		if formatOf(b.meta) < FormatVersion {
			if err := s.upgrade(tx, &b); err != nil {
				return err
			}
		}
		return putHead(b.meta, &s.head)
	})
	if err != nil {
		// The cache may show the new epoch, and the disk not have it. The next Open has to look at the disk.
		return errors.Join(err, writeCheckMark(s.dir, err))
	}
	return nil
}

func random() (b [16]byte) {
	rand.Read(b[:]) // never fails
	return b
}

// inUse is the error of a lock that was not given up in time.
func inUse(dir string, waited time.Duration) error {
	return fmt.Errorf("%w: %s, after waiting %v; stop the other process, give it a directory of its own, or raise Options.LockWait",
		onefold.ErrInUse, dir, max(waited, 0))
}
