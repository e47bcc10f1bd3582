//go:build !unix

package boltstore

// syncDir does nothing where directories cannot be synced; the file system journals their entries itself.
func syncDir(string) error { return nil }
