package diskfault

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A disk that says that it has synced and has not is beyond any store. It shows that the model and the
// inspector see what is lost.
func TestModelSeesWhatIsLostByADiskThatLiesAboutSyncs(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	// From the third of each thread on: the first make the store.
	r := strace(t, plain(t.TempDir(), seed), allBytes, "fdatasync:retval=0:when=3+")
	require.True(t, r.facts.Ended)
	o := checkOrder(r.trace, r.plan)
	require.NotEmpty(t, o.breaches, "entries were acked without a sync")
	b := newBlackout(t, seed, 0, 0)
	d, known := newDisk(rootOf(r.plan), never), facts{}
	for _, s := range r.trace.steps[:o.first+1] {
		if line, ok := s.call.said(); ok && !s.end {
			_ = known.hear(line)
		}
		require.NoError(t, d.take(s))
	}
	dir := t.TempDir()
	require.NoError(t, store(d.image(choices(b.random)[0]), d.root, dir))
	q := r.plan.question(known.clone())
	q.Dir = dir + "/store"
	f, err := b.inspector.ask(q)
	require.NoError(t, err)
	assert.True(t, f.Class == "damaged" || len(f.Breaches) > 0, "%v", f)
}

// A disk that says that it has written a page and has not leaves an older page in its place, which may be right
// in itself. What can be seen is named as damage; the test counts what is not.
func TestWriteThatWasConfirmedAndNotMadeNeverEndsTheProcessThatOpensTheStore(t *testing.T) {
	t.Parallel()
	seed, i := seedOf(t), newInspector(t)
	dry := strace(t, small(t.TempDir(), seed), someBytes)
	whole, damaged, wrong, panicked := 0, 0, 0, 0
	for _, n := range moments(seed, dry.trace.count("pwrite64"), 30) {
		for _, written := range []int{512, 4096} {
			fault := fmt.Sprintf("pwrite64:retval=%d:when=%d", written, n)
			r := shot{plan: small(t.TempDir(), seed), shown: someBytes, faults: []string{fault}, mayEnd: true}.run(t)
			if r.panicked != "" {
				// The process that used the store all the time: guard.go of the store says what cannot be guarded there.
				panicked++
				assert.Regexp(t, `freepages|stack overflow`, r.panicked)
			}
			f, err := i.ask(r.plan.question(r.facts))
			switch {
			case !assert.NoError(t, err):
			case !f.Opened:
				damaged++
				assert.Contains(t, []string{"damaged", "not-store"}, f.Class, f.Text)
			case len(f.Breaches) > 0:
				wrong++
				t.Logf("write %d, %d bytes: %q", n, written, f.Breaches)
			default:
				whole++
			}
		}
	}
	t.Logf("%d whole, %d named as damaged, %d wrong; %d ended while the store was in use", whole, damaged, wrong, panicked)
}
