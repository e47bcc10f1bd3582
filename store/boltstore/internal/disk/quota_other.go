//go:build !unix

package disk

import "syscall"

// errQuota says that a user's share of the disk is used up; this system has no error of its own for it.
const errQuota = syscall.ENOSPC
