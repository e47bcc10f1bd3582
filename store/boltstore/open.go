package boltstore

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
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
	s := newStore(dir, options)
	err = guarded("open "+dir, s.open)
	var p *panicked
	if errors.As(err, &p) {
		err = fmt.Errorf("%w; restore the directory from a backup", err)
	}
	if err != nil {
		if s.db != nil {
			s.snap.close(err)
			_ = guarded("close", s.db.Close)
		}
		return nil, err
	}
	go s.write()
	return s, nil
}

func newStore(dir string, o Options) *Store {
	s := &Store{
		dir: dir, options: o, clock: o.Clock, hashMask: ^uint64(0),
		closing: make(chan struct{}), written: make(chan struct{}),
	}
	s.queue.wake = make(chan struct{}, 1)
	if o.hooks.hashBits > 0 {
		s.hashMask = 1<<o.hooks.hashBits - 1
	}
	for i := range s.stripes {
		s.stripes[i] = stripe{
			claims: map[uint64]*claim{}, index: map[uint64]uint64{}, more: map[uint64][]uint64{}, history: map[string]*history{},
		}
	}
	s.rows = newRowQueue(s)
	return s
}

// open does the steps of Open up to a store that only lacks its writer.
func (s *Store) open() error {
	deadline := time.Now().Add(max(s.options.LockWait, 0))
	if err := prepareDir(s.dir); err != nil {
		return err
	}
	checkPages := hasCheckMark(s.dir)
	if checkPages {
		if err := dropCache(filepath.Join(s.dir, mainFile)); err != nil {
			return fmt.Errorf("open %s: %w", s.dir, err)
		}
	}
	if err := s.examine(deadline); err != nil {
		return err
	}
	db, err := openFile(s.dir, deadline, &bolt.Options{
		NoFreelistSync: true, FreelistType: bolt.FreelistMapType, InitialMmapSize: s.options.MmapBytes,
		MaxSize: s.options.hooks.maxFile,
	}, s.options.LockWait)
	if err != nil {
		return err
	}
	s.db = db
	if err := db.View(s.measure); err != nil {
		return err
	}
	if err := s.settleIdentity(); err != nil {
		return err
	}
	if checkPages {
		if err := s.checkPages(); err != nil {
			return err
		}
	}
	if s.mapping, err = newMapping(db, s.options.MmapBytes, s.largest); err != nil {
		return fmt.Errorf("open %s: %w", s.dir, err)
	}
	if err := s.start(); err != nil {
		return err
	}
	return s.snap.renew(db)
}

// settleIdentity makes sure, now that the file is locked, that the store is complete and ours.
func (s *Store) settleIdentity() error {
	mark, marked, err := readStoreMark(s.dir)
	if err != nil {
		return err
	}
	if !marked {
		if err := s.create(); err != nil {
			return fmt.Errorf("create store in %s: %w", s.dir, err)
		}
	}
	err = s.db.View(s.readIdentity)
	if err != nil {
		return fmt.Errorf("open %s: %w", s.dir, err)
	}
	if !marked {
		if err := writeStoreMark(s.dir, storeMark{FormatVersion, s.info.ID}); err != nil {
			return fmt.Errorf("create store in %s: %w", s.dir, err)
		}
		return nil
	}
	if mark.id != s.info.ID {
		return fmt.Errorf("%w: %s holds store %s and the directory was made for %s; put the right file back",
			onefold.ErrDamaged, filepath.Join(s.dir, mainFile), s.info.ID, mark.id)
	}
	return nil
}

// create makes the buckets of an empty store, unless an earlier try has come so far.
func (s *Store) create() error {
	return s.db.Update(func(tx *bolt.Tx) error {
		if tx.Bucket(rootName) != nil {
			return nil
		}
		return createBuckets(tx, random(), random(), s.clock.Wall().UnixNano())
	})
}

// readIdentity reads what never changes.
func (s *Store) readIdentity(tx *bolt.Tx) error {
	b, err := bucketsOf(tx)
	if err != nil {
		return err
	}
	format, id, key := b.meta.Get(metaFormat), b.meta.Get(metaID), b.meta.Get(metaHashKey)
	created := b.meta.Get(metaCreated)
	if len(format) != 4 || len(id) != 16 || len(key) != 16 || len(created) != 8 {
		return fmt.Errorf("%w: bucket %q is incomplete; restore the directory from a backup", onefold.ErrDamaged, metaName)
	}
	if v := binary.BigEndian.Uint32(format); v != FormatVersion {
		return newerFormat(v)
	}
	s.hashKey = [2]uint64{binary.BigEndian.Uint64(key), binary.BigEndian.Uint64(key[8:])}
	s.info = onefold.Info{
		Kind: Kind, ID: hex.EncodeToString(id), Created: time.Unix(0, int64(binary.BigEndian.Uint64(created))).UTC(),
		OneProcess: true, OneFeed: true, Ordered: true, Timers: true, Expiry: onefold.ExpiryStore, Durable: true,
		MaxEntry: s.options.MaxEntry, FailureLag: s.options.FailureLag,
	}
	return nil
}

func newerFormat(found uint32) error {
	return fmt.Errorf("%w: format is %d, this version reads up to %d; use the newer version, or a backup made before it",
		onefold.ErrNewerFormat, found, FormatVersion)
}

// checkPages checks the file page by page, as is due after a fail stop.
func (s *Store) checkPages() error {
	err := s.db.View(func(tx *bolt.Tx) error {
		var first error
		for err := range tx.Check() {
			if first == nil {
				first = err
			}
		}
		return first
	})
	if err != nil {
		return fmt.Errorf("%w: %s, after a write that failed: %w; restore the directory from a backup",
			onefold.ErrDamaged, filepath.Join(s.dir, mainFile), err)
	}
	return removeCheckMark(s.dir)
}

// start counts the epoch and loads what memory holds.
func (s *Store) start() error {
	err := s.db.Update(func(tx *bolt.Tx) error {
		b, err := bucketsOf(tx)
		if err != nil {
			return err
		}
		h, err := parseHead(b.meta.Get(metaHead))
		if err != nil {
			return fmt.Errorf("%w: meta: %w", onefold.ErrDamaged, err)
		}
		s.info.Clean, s.info.Position = h.clean, h.position
		h.epoch, h.clean = h.epoch+1, false
		s.info.Epoch, s.base, s.head = h.epoch, h.clock, h
		return b.meta.Put(metaHead, h.encode())
	})
	if err != nil {
		return fmt.Errorf("open %s: %w", s.dir, err)
	}
	s.opened = s.clock.Mono()
	if err := s.db.View(s.loadMemory); err != nil {
		return fmt.Errorf("open %s: %w", s.dir, err)
	}
	return nil
}

// inUse is the error of a lock that was not given up in time.
func inUse(dir string, waited time.Duration) error {
	return fmt.Errorf("%w: %s, after waiting %v; stop the other process, give it a directory of its own, or raise Options.LockWait",
		onefold.ErrInUse, dir, max(waited, 0))
}
