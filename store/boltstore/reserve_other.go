//go:build !linux

package boltstore

import "os"

// reservedAtOpen is how far the blocks of a file are taken to be there.
func reservedAtOpen(size int64) int64 { return size }

// allocate gives the file blocks up to the size to.
func allocate(file *os.File, _, to int64) error { return fill(file, to) }
