//go:build !unix || solaris || aix || android

package disk

import "os"

// Remove removes a file.
func Remove(path string, _ func() error) error { return os.Remove(path) }
