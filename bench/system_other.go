//go:build !linux

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
)

// errSystem says that this system is not one to measure on.
var errSystem = fmt.Errorf("%w: the bench measures on Linux, and this is %s", errors.ErrUnsupported, runtime.GOOS)

func dataSync(*os.File) error             { return errSystem }
func freeBytes(string) (uint64, error)    { return 0, errSystem }
func processTime() (time.Duration, error) { return 0, errSystem }
func anonymousBytes() (uint64, error)     { return 0, errSystem }
func allocated(string) (int64, error)     { return 0, errSystem }
func calmDisk(string) error               { return errSystem }
func dropCache(string) error              { return errSystem }
func fillCache(string) error              { return errSystem }
