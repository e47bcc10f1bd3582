package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// describe says on what the numbers were made. The disk is measured where the files of the run are.
func describe(ctx context.Context, dir string) (string, error) {
	sync, err := syncMedian(dir)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/%s, %d cores (GOMAXPROCS %d), file system %s, fdatasync of 4 KiB in %v (median of %d), %s",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.GOMAXPROCS(0), fileSystem(ctx, dir),
		sync.Round(time.Microsecond), syncs, runtime.Version()), nil
}

// fileSystem names the file system of dir as df knows it.
func fileSystem(ctx context.Context, dir string) string {
	out, err := exec.CommandContext(ctx, "df", "--output=fstype", dir).Output()
	lines := strings.Fields(string(out))
	if err != nil || len(lines) == 0 {
		return "unknown"
	}
	return lines[len(lines)-1]
}

// syncs is how often the disk is asked.
const syncs = 200

// syncMedian is how long it takes to make one overwritten page durable.
func syncMedian(dir string) (took time.Duration, err error) {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	page := make([]byte, 4096)
	all := make([]time.Duration, 0, syncs)
	for range syncs + 1 { // the first one makes the file longer
		if _, err := f.WriteAt(page, 0); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := dataSync(f); err != nil {
			return 0, fmt.Errorf("fdatasync: %w", err)
		}
		all = append(all, time.Since(start))
	}
	return median(all[1:]), nil
}
