//go:build unix

package disk

import "syscall"

// errQuota says that a user's share of the disk is used up.
const errQuota = syscall.EDQUOT
