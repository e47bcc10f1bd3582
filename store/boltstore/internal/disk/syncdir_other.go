//go:build !unix

package disk

// SyncDir does nothing where directories cannot be synced; the file system journals their entries itself.
func SyncDir(string) error { return nil }
